"""The oracle of unfinished matches gives the worked examples, and keeps its laws over random clauses."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.oracle import expr, measures, pattern
from tests.oracle.clause_texts import examples, expression, inside, row_pattern, split
from tests.oracle.match import SkipTargetError
from tests.oracle.selection import ANY, NEXT, STRICT, Budget, _first_matches, _Search
from tests.oracle.unfinished import MATCHED, OPEN, TIMED_OUT, TIMEOUT, Unfinished
from tests.property.unfinished.unfinished_cases import random_partition, random_query

EXAMPLES = examples(Path(__file__).with_name("unfinished_examples.txt").read_text())
STRATEGIES = {"SKIP TILL NEXT MATCH": NEXT, "SKIP TILL ANY MATCH": ANY}


def query(clause) -> Unfinished:
    """The clause of an example."""
    text = inside(clause, "MATCH_RECOGNIZE")
    p = row_pattern(inside(text, "PATTERN"))
    variables = pattern.variables(p)
    wanted = re.search(r"MEASURES (.*?) (?:ONE|ALL) ROWS? PER MATCH", text)[1]
    show = re.search(r"SHOW (UNFINISHED|TIMEOUT) MATCHES(?: AS OF (\d+))?", text)
    strategy = next((name for words, name in STRATEGIES.items() if words in text), STRICT)
    window = re.search(r"\) WINDOW (\d+)( ROWS)?", text)
    skip = re.search(r"AFTER MATCH SKIP (TO NEXT ROW|PAST LAST ROW|TO (?:FIRST|LAST) \w+)", text)
    defines = re.search(r"DEFINE (.*)", text)
    named = [part.rsplit(" AS ", 1) for part in split(wanted)]
    skips = skip and (skip[1].lower(),)
    if skips and skips[0].split()[1] in ("first", "last"):
        skips = (skips[0].rsplit(" ", 1)[0], skip[1].split()[2])
    return Unfinished(
        p,
        inside(text, "PATTERN"),
        {part.split(" AS ", 1)[0]: expression(part.split(" AS ", 1)[1], variables) for part in split(defines[1])} if defines else {},
        strategy,
        skip=skips,
        window=window and ("rows" if window[2] else "range", int(window[1])),
        mode=measures.WITH_UNMATCHED if "UNMATCHED" in text else measures.SHOW_EMPTY if "ALL ROWS" in text else measures.ONE_ROW,
        measures={name.strip(): expression(e, variables) for e, name in named},
        show=show and show[1],
        as_of=show and show[2] and int(show[2]),
        descending="ORDER BY t DESC" in text,
    )


def answer(example):
    """The oracle's rows, in the form of the example's."""
    asked = query(example.clause)
    key = re.search(r"PARTITION BY (\w+)", example.clause)
    partitions = {}
    for row in example.rows:
        partitions.setdefault(row[key[1]] if key else 0, []).append(row)
    times = [row["t"] for row in example.rows if row["t"] is not None]
    latest = (min if asked.descending else max)(times)
    found = []
    for of in sorted(partitions):
        rows = sorted(partitions[of], key=lambda row: (row["t"] is not None, row["t"]), reverse=asked.descending)
        for at, values in asked.output(rows, latest):
            found.append((*([] if at is None else [rows[at]["t"]]), *values.values()))
    return found


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not isinstance(e.expected, str)], ids=lambda e: e.name)
def test_worked_example(example):
    assert answer(example) == example.expected


def test_the_examples_are_all_there():
    assert len(EXAMPLES) == 43
    assert [e.name for e in EXAMPLES if isinstance(e.expected, str)] == ["U26", "U26b", "U26c"]


def cases(seed, count, **options):
    """Random queries with a partition each, those that are too large or end in an error left out."""
    rng = random.Random(seed)
    for _ in range(count):
        query = random_query(rng, **options)
        rows = random_partition(rng, query)
        try:
            yield query, rows, query.entries(rows)
        except (Budget, SkipTargetError):
            continue


def test_matches_are_those_without_the_option():
    matched = 0
    for query, rows, entries in cases("law 1", 400, show="UNFINISHED"):
        plain = _first_matches(query, rows, _Search(query, rows))
        assert [(m.start, m.pairs, m.excluded, m.number) for m in plain] == [
            (e.start, e.pairs, e.excluded, e.number) for e in entries if e.status == MATCHED
        ]
        matched += len(plain)
    assert matched > 150


def test_timeouts_are_a_part_of_all():
    timed_out = 0
    for query, rows, entries in cases("law 2", 300, show="UNFINISHED"):
        query.show = TIMEOUT
        assert query.entries(rows) == [e for e in entries if e.status in (MATCHED, TIMED_OUT)]
        timed_out += sum(e.status == TIMED_OUT for e in entries)
    assert timed_out > 50


def test_a_start_row_has_one_entry_and_matches_hide_theirs():
    for query, _, entries in cases("one", 300, show="UNFINISHED"):
        starts = [e.start for e in entries]
        assert len(set(starts)) == len(starts)
        if query.skip is None or query.skip[0] != "to next row":
            runs = [e for e in entries if e.status != MATCHED]
            assert all(later.start > earlier.last for earlier, later in zip(runs, runs[1:], strict=False))


def looks_ahead(query):
    return any("NEXT(" in expr.to_sql(e) for e in query.defines.values())


@pytest.mark.further
def test_a_stream_takes_nothing_back():
    reported = 0
    for query, rows, _ in cases("law 3", 60, show="UNFINISHED", anchors=False, descending=False, as_of=None):
        if looks_ahead(query):
            continue
        before = []
        try:
            for watermark in range(-2, 45):
                told = query.told(rows, watermark)
                assert told[: len(before)] == before
                before = told
        except Budget:
            continue
        reported += sum(e.status != MATCHED for e in before)
        # at the end, with a clock that is later than all windows, nothing but runs without an end is left
        rest = query.entries([row for row in rows if row["t"] is not None], 45)
        is_open = next((e.start for e in rest if e.status == OPEN), None)
        if is_open is None and query.window is not None and query.window[0] == "range":
            assert before == rest
    assert reported > 25
