"""The oracle of named sequences gives the worked examples, and agrees with itself where two statements mean one thing."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracle import pattern
from tests.oracle.clause_texts import cell, expression, row_pattern, split
from tests.oracle.named_sequences import RETRACT, Objective, Preference, Ranked, Sequence, expanded
from tests.oracle.selection import ALL, ANY, Budget
from tests.property.topk.named_sequence_cases import random_case

BLOCKS = [block.split("\n") for block in Path(__file__).with_name("named_sequences_examples.txt").read_text().strip().split("\n\n")]
PARTS = re.compile(r"\s+(?=(?:SEQUENCE|PATTERN|WINDOW|PREF|TOP|DEFINE) )")
SEQUENCE = re.compile(r"SEQUENCE (\w+) AS \((.*)\)(?: WITHIN (\d+)( ROWS)?)?(?: UPDATE (\d+))?")


def objectives(text, variables):
    """(objectives, combine) of a PREF."""
    text, _, combine = text.partition(" COMBINE BY ")
    found = []
    for part in text.split(" AND "):
        goal, e, name = re.fullmatch(r"(MAX|MIN) \((.*)\)(?: AS (\w+))?", part).groups()
        found.append(Objective(goal, expression(e, variables), name))
    return tuple(found), combine or "SUM"


def query(clause) -> Ranked:
    """The clause of an example."""
    options = {"sequences": ()}
    defines, written, variables = {}, None, list("ABCDEZ")
    for part in PARTS.split(clause):
        word, _, rest = part.partition(" ")
        if word == "SEQUENCE":
            name, p, within, rows, update = SEQUENCE.match(part).groups()
            size = within and (pattern.Rows(within) if rows else int(within))
            options["sequences"] += (Sequence(name, row_pattern(p), size, update and (pattern.Rows(update) if rows else int(update))),)
        elif word == "PATTERN":
            written = row_pattern(rest[1:-1])
        elif word == "WINDOW":
            size, unit, slide = re.fullmatch(r"(\d+)( ROWS)?(?: SLIDE (\d+)(?: ROWS)?)?", rest).groups()
            options |= {"window": ("rows" if unit else "range", int(size)), "slide": slide and int(slide)}
        elif word == "PREF" and rest.startswith("SEQUENCES"):
            weights = re.search(r"WEIGHTS \((.*?)\)", rest)
            pairs = [part.split() for part in split(weights[1])] if weights else []
            options["preference"] = Preference(None, tuple((name, cell(weight)) for name, weight in pairs), rest.split()[-1])
        elif word == "PREF":
            found, combine = objectives(rest, [*variables, *(s.name for s in options["sequences"])])
            if written is None:
                *others, s = options["sequences"]
                options["sequences"] = (*others, Sequence(s.name, s.pattern, s.within, s.update, found, combine))
            else:
                options["preference"] = Preference(found, (), combine)
        elif word == "TOP":
            options |= {"top": int(rest.split()[0]), "overall": "OVERALL" in rest, "changes": "REPORT CHANGES" in rest}
        else:
            defines = {name: expression(e, variables) for name, e in (one.split(" AS ", 1) for one in split(rest))}
    for name in pattern.variables(expanded(written, options["sequences"])):
        letter = ("=", ("col", "s"), ("lit", name.lower()))
        defines[name] = ("and", letter, defines[name]) if name in defines else letter
    return Ranked(written, pattern.to_text(written), defines, ANY, ALL, written=written, **options)


def partitions(text):
    found = {}
    for part in text.split(" | "):
        words = part.split()
        key = None if words[0] == "NULL" else int(words.pop(0)) if words[0].isdigit() else 0
        rows = []
        for i, word in enumerate(word for word in words if word != "NULL"):
            name, v, *m = word.split(":")
            rows.append({"id": i, "s": name[0], "t": int(name[1:]), "v": None if v == "-" else int(v), "m": int(*m) if m else None})
        found[key] = rows
    return found


def shown(asked, listed, some):
    rows = some[listed.key]
    names = [f"{rows[row]['s']}{rows[row]['t']}" for row in sorted({row for row, _ in listed.match.pairs})]
    score = "NULL" if listed.score is None else f"{listed.score:.10g}"
    window = "" if asked.slide is None else f"{listed.window}: "
    change = f"{listed.change} " if listed.change else ""
    key = f"{'NULL' if listed.key is None else listed.key} " if len(some) > 1 else ""
    return f"{window}{change}{score}: {key}{' '.join(names)}"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block[0])
def test_worked_example(block):
    name, rows, clause, expected = block
    asked, some = query(clause), partitions(rows)
    found = [shown(asked, listed, some) for listed in asked.ranked(some)]
    if name in ("N1", "N2"):  # of window 0 alone
        found = [row for row in found if row.startswith("0: ")]
    assert "; ".join(found) == expected


def cases(seed, count, **wanted):
    rng = random.Random(seed)
    return [random_case(rng, **wanted) for _ in range(count)]


def test_changes_add_up_to_the_lists():
    retracted = 0
    for case in cases("changes", 150):
        query = case.query
        if query.slide is None or query.descending:
            continue
        query.changes = False
        query.measures = {name: e for name, e in query.measures.items() if e != ("match_number",)}
        lists, there = query.ranked(case.partitions), {}
        changes = replace(query, changes=True).ranked(case.partitions)
        retracted += sum(one.change == RETRACT for one in changes)
        for window in sorted({one.window for one in [*lists, *changes]}):
            for one in (one for one in changes if one.window == window):
                same = query.identity(replace(one, window=None), case.partitions)
                assert (same in there) == (one.change == RETRACT)
                there.pop(same) if same in there else there.update({same: one})
            wanted = [query.identity(one, case.partitions) for one in lists if one.window == window]
            if wanted:  # a partition without a row in this window keeps its list
                assert all(one in there for one in wanted)
                assert query.overall is False or len(wanted) == len(there)
    assert retracted > 20


def test_names_change_no_match():
    compared = 0
    for case in cases("names", 60, top=None, slide=None, report=ALL):
        query = case.query
        plain = Ranked(query.pattern, "", query.defines, query.strategy, ALL, None, query.window, written=query.pattern, descending=query.descending)
        if any(s.update is not None for s in query.sequences):
            continue
        for rows in case.partitions.values():
            assert [m.pairs for m in plain.find(rows)] == [m.pairs for m in query.find(rows)]
            compared += 1
    assert compared > 50


@pytest.mark.further
def test_a_window_of_its_own_as_long_as_the_window_has_no_effect():
    compared = 0
    for case in cases("update", 200):
        query = case.query
        if query.slide is None or query.changes:
            continue
        wide = replace(query, sequences=tuple(replace(s, within=None, update=None) for s in query.sequences))
        updated = replace(query, sequences=tuple(replace(s, within=query.window[1], update=1) for s in query.sequences))
        try:
            lists = [q.ranked(case.partitions) for q in (wide, updated)]
        except Budget:
            continue
        assert lists[0] == lists[1]
        compared += len(lists[0])
    assert compared > 100
