"""PATTERN over rows that come and go, against the definition: after each change all matches are computed anew, by the oracle of
event selection."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.strategy import strategy_of
from sparkcep.engine.automaton import register_arrays
from sparkcep.engine.changelog import changelog as changelog_engine
from sparkcep.engine.changelog import run_log as log_engine
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.settings import DEFAULT, Settings
from sparkcep.sql.explain.as_automaton import as_automaton
from tests.oracle import changelog, expr, measures, pattern, selection
from tests.property.frontier.test_selection_differential import condition_of, loop_and_what_follows
from tests.property.in_process import run
from tests.selection import first, one_in

QUERIES, PARTITIONS = 20, 8  # a seed
_NOT_THERE = ("match_number", "prev", "next")


def contains(e, kinds):
    return isinstance(e, tuple) and (e[0] in kinds or any(contains(part, kinds) for part in e[1:]))


def random_prior(rng, name, names):
    return selection._random_prior(rng, name, names, ())


def random_condition(rng, name, names):
    return expr.random_condition(rng, name, names, "history")


def random_query(rng, mode=measures.ONE_ROW):
    """One of those of which all may stand beside CHANGES IN, but for conditions that no register holds."""
    while True:
        query = selection.random_query(rng, report=selection.ALL, shapes=("plain",), budget=4000)
        if pattern.contains(query.pattern, ("start", "end", "exclude", "within")) or (query.window and query.window[0] == "rows"):
            continue
        roll = rng.random()
        if roll < 0.2:  # where SKIP TILL NEXT ignores rows by the state
            p = loop_and_what_follows(rng)
            if pattern.contains(p, ("within",)):
                continue
            defines = {name: condition_of(rng, name, True) for name in pattern.variables(p)}
            query = replace(query, pattern=p, pattern_text=pattern.to_text(p), defines=defines, strategy=selection.NEXT, subsets={}, measures=dict(selection.BASE_MEASURES))
        elif roll < 0.5:  # conditions that look at the match alone
            names = pattern.variables(query.pattern)
            looks = {name: rng.choice([random_prior, random_condition])(rng, name, names) for name in names}
            query = replace(query, defines={name: e for name, e in looks.items() if not contains(e, _NOT_THERE)})
        told = {name: e for name, e in query.measures.items() if not contains(e, _NOT_THERE)}
        return replace(query, mode=mode, skip=rng.choice([None, ("to next row",)]), measures=told)


def with_changes(query, words, more=""):
    """The clause's text with CHANGES IN, and measures before its own."""
    text = query.to_sql().replace("MEASURES ", f"MEASURES {more}", 1)
    return text.replace("PATTERN", f"CHANGES IN op {words}\nPATTERN", 1)


def stretches(rows, consecutive):
    """The rows that computations may step along."""
    out = []
    for row in rows:
        joined = out and (not consecutive or (row["n"] is not None and out[-1][-1]["n"] is not None and out[-1][-1]["n"] + 1 == row["n"]))
        if joined:
            out[-1].append(row)
        else:
            out.append([row])
    return out


def matches_of(query, consecutive):
    """What finds matches as (name of the first row, of the last row, (``at``, variable) of its rows, measures of its output
    rows)."""

    def find(_, rows, until, name):
        out = []
        for some in stretches(rows, consecutive):
            told = {}
            for found, number in ((f, f.number) for f in query.find(some)):
                told[number] = (name(some[found.pairs[0][0]]), name(some[found.pairs[-1][0]]), tuple((some[row]["at"], v) for row, v in found.pairs))
            values = {number: [] for number in told}
            # the number tells whose an output row is
            for _, row in replace(query, measures={**query.measures, "number": ("match_number",)}).output(some):
                values[row.pop("number")].append(tuple(sorted(row.items(), key=str)))
            out += [(*told[number], tuple(values[number])) for number in told]
        return out

    return find


def refused(text):
    """Whether a condition is none of an automaton."""
    try:
        strategy_of(make_plan(parse_clause(text)))
    except ClauseError as error:
        assert error.error_class == "SPARKCEP.AUTOMATON", error
        assert error.line, error
        return True
    return False


def letters(rng, changes):
    """The changes with values of s, of which equal rows have equal ones."""
    named = {}
    return [{**change, "p": 0, "s": named.setdefault((change["id"], change["v"], change["w"], change["n"]), rng.choice("aabc"))} for change in changes]


def compare(rng, query, partitions, chunk_rows=None):
    """(partitions compared, changes told) of one query, (0, 0) where it is refused."""
    consecutive, ahead = rng.random() < 0.3, rng.choice((None, None, None, 0, 2))
    speculate = rng.choice(("", " SPECULATE ALL")) if ahead is None else f" SPECULATE {ahead or 'NONE'}"
    words = f"ARRIVAL BY at{' CONSECUTIVE BY n' if consecutive else ''}"
    logged = with_changes(query, f"{words} REPORT CHANGES{speculate}", "CHANGE() AS m_change, CHANGE_NUMBER() AS m_change_number, CHANGED_BY() AS m_by, ")
    net = with_changes(query, words)
    if refused(logged):
        return 0, 0
    expected, left, find = {}, {}, matches_of(query, consecutive)
    for p, changes in partitions.items():
        try:
            expected[p] = changelog.changelog(None, changes, ahead, lambda match, rows: match, find=find)
            left[p] = Counter(row for match in find(None, changelog.left(changes), None, lambda row: row["at"]) for row in match[3])
        except selection.Budget:
            expected.pop(p, None)
    some = {p: partitions[p] for p in expected}
    got, at_end = (run(text, some, chunk_rows) if some else {} for text in (logged, net))
    told = 0
    for p, answer in expected.items():
        about = f"{logged}\nchanges {partitions[p]}\noracle {answer}\nengine {got.get(p)}"
        wanted = [(change, cause, row) for change, cause, (*_, rows), _ in answer for row in rows]
        rows = [(row.pop("m_change"), row.pop("m_by"), row.pop("m_change_number"), tuple(sorted(((k, v) for k, v in row.items() if k in query.measures), key=str))) for row in got.get(p, [])]
        assert Counter(wanted) == Counter((change, cause, row) for change, cause, _, row in rows), about
        assert [(cause, change) for _, cause, change in sorted((number, cause, change) for change, cause, number, _ in rows)] == [(cause, change) for change, cause, _ in wanted], about
        assert left[p] == Counter(tuple(sorted(((k, v) for k, v in row.items() if k in query.measures), key=str)) for row in at_end.get(p, [])), about
        told += len(rows)
    return len(expected), told


def logs(rng, longest=10):
    return {p: letters(rng, changelog.random_changes(rng, rng.randrange(1, longest), rng.choice((0.0, 0.3, 0.7)))) for p in range(PARTITIONS)}


@pytest.mark.parametrize("seed", first(range(48), wider=2))
def test_changes_are_those_of_all_matches(seed):
    rng = random.Random(9000 + seed)
    compared = told = 0
    for i in range(QUERIES // 2):
        pairs, changes = compare(rng, random_query(rng), logs(rng), (None, 1, 3)[i % 3])
        compared, told = compared + pairs, told + changes
    assert compared > 0.2 * QUERIES * PARTITIONS
    assert told > compared // 4


@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_rows_of_matches_that_come_and_go(seed):
    rng = random.Random(9100 + seed)
    compared = told = 0
    for _ in range(QUERIES // 2):
        pairs, changes = compare(rng, random_query(rng, rng.choice([measures.SHOW_EMPTY, measures.OMIT_EMPTY])), logs(rng))
        compared, told = compared + pairs, told + changes
    assert compared > 0.2 * QUERIES * PARTITIONS
    assert told > 0.5 * compared


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_20_000_logs(batch):
    rng, compared, told = random.Random(9800 + batch), 0, 0
    while compared < 20_000 // 8:
        pairs, changes = compare(rng, random_query(rng), logs(rng, 12))
        compared, told = compared + pairs, told + changes
    assert told > compared


@pytest.mark.parametrize("seed", first(range(4), wider=1))
def test_rooms_that_are_too_small_change_nothing(seed, monkeypatch):
    for module, name in ((register_arrays, "RECORDS"), (register_arrays, "MATCHES"), (log_engine, "KEPT"), (log_engine, "CHANGES"), (changelog_engine, "BLOCK"), (changelog_engine, "FLUSH")):
        monkeypatch.setattr(module, name, 2)
    rng = random.Random(9400 + seed)
    assert sum(compare(rng, random_query(rng), logs(rng))[1] for _ in range(QUERIES // 2)) > 50


@pytest.mark.parametrize("seed", first(range(4), wider=1))
def test_every_arrival_gives_one_net(seed):
    rng = random.Random(9500 + seed)
    told = 0
    for _ in range(QUERIES // 2):
        query = random_query(rng)
        text = with_changes(query, "ARRIVAL BY at REPORT CHANGES", "CHANGE() AS m_change, ")
        if refused(text):
            continue
        rows = [dict(row, n=None, op="insert") for row in selection.random_rows(rng, rng.randrange(2, 8))]
        partitions = {p: [dict(row, at=at) for at, row in enumerate(rng.sample(rows, len(rows)))] for p in range(4)}
        try:
            expected = Counter(tuple(sorted(values.items(), key=str)) for _, values in query.output(rows))
        except selection.Budget:
            continue
        for answer in (run(text, partitions) or dict.fromkeys(partitions, ())).values():
            net = Counter()
            for row in answer:
                net[tuple(sorted(((k, v) for k, v in row.items() if k in query.measures), key=str))] += {"insert": 1, "retract": -1}[row["m_change"]]
            assert +net == expected and not -net, f"{text}\nrows {rows}\nengine {answer}"
            told += len(answer)
    assert told > 25


@pytest.mark.parametrize("report", ["", "REPORT CHANGES"])
def test_paths_of_earlier_partitions_take_no_room(report):
    """The paths of each partition are within the limit, and those of all together are not."""
    rows = [{"id": i, "v": i, "w": 0, "s": None, "n": None, "op": "insert", "at": -i} for i in range(20)]
    text = (
        f"PARTITION BY p ORDER BY id MEASURES {'CHANGE() AS m_change, ' * bool(report)}LAST(id) AS m_last EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) "
        f"CHANGES IN op ARRIVAL BY at {report} DEFINE C AS v = 19"
    )
    found = run(text, {p: rows for p in range(80)}, settings=Settings(max_state_bytes=3 << 20))
    assert {p: len(matches) for p, matches in found.items()} == dict.fromkeys(range(80), 19 * 18 // 2)


def restated_agrees(rng, query):
    """(partitions compared, matches) of a query and what EXPLAIN AUTOMATON makes of it; (0, 0) where that is an error."""
    try:
        text = as_automaton(parse_clause(query.to_sql()), DEFAULT)
    except ClauseError as error:
        assert error.error_class == "SPARKCEP.AUTOMATON", error
        assert error.line, error
        return 0, 0
    expected, partitions = {}, {}
    for p in range(PARTITIONS):
        rows = [{**row, "p": p} for row in selection.random_rows(rng, rng.randrange(1, 8))]
        try:
            expected[p] = Counter(tuple(sorted(values.items(), key=str)) for _, values in query.output(rows))
        except selection.Budget:
            continue
        partitions[p] = rows
    little = random.Random(rng.random()) if rng.random() < 0.4 and query.mode == measures.ONE_ROW else None
    got, matched = run(text, partitions, cuts=little) if partitions else {}, 0
    for p, answer in expected.items():
        rows = Counter(tuple(sorted(((k, v) for k, v in row.items() if k in query.measures), key=str)) for row in got.get(p, []))
        assert rows == answer, f"{query.to_sql()}\n{text}\nrows {partitions[p]}"
        matched += sum(answer.values())
    return len(expected), matched


@pytest.mark.parametrize("seed", first(range(12), wider=1))
def test_the_automaton_that_explain_prints_gives_the_same_matches(seed):
    rng = random.Random(9600 + seed)
    compared = matched = 0
    for _ in range(QUERIES):
        pairs, matches = restated_agrees(rng, random_query(rng, rng.choice([measures.ONE_ROW, measures.ONE_ROW, measures.OMIT_EMPTY])))
        compared, matched = compared + pairs, matched + matches
    assert compared > 0.4 * QUERIES * PARTITIONS
    assert matched > compared


LOOKING = (
    "v > LAST(A.v, 1)", "v > LAST(v, 1)", "v <= LAST(A.v, 2)", "v <> FIRST(A.v, 1)", "v >= FIRST(v, 2)", "FIRST(coalesce(v, 9), 1) <> 9", "LAST(coalesce(A.v, 9), 1) = 9",
    "LAST(coalesce(A.v, 9), 2) = 9", "FIRST(coalesce(A.v, 9), 1) = 9", "count(A.v) < 3", "sum(A.v) > 2", "avg(v) < 2", "min(A.v) < max(v)", "PRIOR(LAST(A.v, 1)) < v", "PRIOR(FIRST(v, 1)) <> v",
    "LAST(CLASSIFIER(), 1) = 'A'", "FIRST(CLASSIFIER(), 1) = 'B'", "CLASSIFIER(B) IS NULL", "count(A.*) FILTER (WHERE A.v > 1) < 2", "v IN (LAST(A.v, 1), 3)",
)  # fmt: skip


@pytest.mark.parametrize("condition", one_in(8, LOOKING))
def test_each_thing_that_a_condition_sees(condition):
    """Against the search of the PATTERN itself, over rows of one variable and of two."""
    rng, matched = random.Random(condition), 0
    for selected in ("STRICT CONTIGUITY", "SKIP TILL NEXT MATCH", "SKIP TILL ANY MATCH"):
        for p, of in (("A{2,} B?", "A"), ("(A|B)+ C", "A"), ("B? A+ B", "B")):
            head = f"PARTITION BY p ORDER BY id MEASURES sum(id) AS ids, count(A.*) AS a, count(B.*) AS b, sum(A.id) AS of_a EVENT SELECTION {selected} ALL MATCHES"
            text = f"{head} PATTERN ({p}) DEFINE {of} AS {condition}" + (", C AS v = 0" if "C" in p else "")
            rows = {p: [{**row, "p": p} for row in selection.random_rows(rng, 6)] for p in range(6)}
            plain, restated = run(text, rows), run(as_automaton(parse_clause(text), DEFAULT), rows)
            for p in rows:
                assert Counter(map(str, plain.get(p, []))) == Counter(map(str, restated.get(p, []))), f"{text}\nrows {rows[p]}"
                matched += len(plain.get(p, []))
    assert matched > 10
