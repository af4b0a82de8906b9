"""Automata over rows that come and go, against the definition."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from sparkcep.engine.automaton import register_arrays
from sparkcep.engine.changelog import changelog as changelog_engine
from sparkcep.engine.changelog import consolidate
from sparkcep.engine.changelog import run_log as log_engine
from sparkcep.engine.changelog.append_only import AppendOnly
from sparkcep.engine.changelog.punctuation import NeededRuns
from sparkcep.errors import MatchRuntimeError
from sparkcep.kernels.automaton.register_runs import S_EVENTS
from sparkcep.kernels.automaton.run_log import S_RECORDS
from sparkcep.settings import Settings
from tests.oracle import automaton as oracle
from tests.oracle import changelog
from tests.property.automaton.test_automata import changes_told, measures_of, same_rows, wanted, with_types
from tests.property.in_process import run
from tests.selection import first

AUTOMATA, PARTITIONS = 10, 10  # a seed


@pytest.mark.parametrize("seed", first(range(16), wider=1))
def test_net_is_of_the_rows_that_are_left(seed):
    rng = random.Random(8000 + seed)
    compared = matched = 0
    for i in range(AUTOMATA):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.4)
        bag = rng.random() < 0.4
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 12)) for p in range(PARTITIONS)}
        words = f"CHANGES IN op{'' if bag else ' ARRIVAL BY at'}{' CONSECUTIVE BY n' if automaton.consecutive else ''}{rng.choice(('', ' REPORT NET'))}"
        expected = {}
        for p, changes in partitions.items():
            automaton.spent[0] = 0
            try:
                rows = changelog.left(changes, bag)
                if bag and len({row["id"] for row in rows}) < len(rows):
                    continue  # rows of one time have no order
                expected[p] = wanted(automaton, rows)
            except (oracle.OverflowInt, oracle.TooMany):
                continue
        text = oracle.clause(automaton, measures_of(automaton)[1], changes=words)
        pairs, rows = same_rows(text, partitions, expected, (None, 1, 3)[i % 3])
        compared, matched = compared + pairs, matched + rows
    assert compared >= 0.5 * AUTOMATA * PARTITIONS
    assert matched > compared


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_rows_that_are_in_no_match(seed):
    rng = random.Random(8100 + seed)
    alone = 0
    for _ in range(AUTOMATA // 2):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.5)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 10)) for p in range(PARTITIONS)}
        words = f"CHANGES IN op ARRIVAL BY at{' CONSECUTIVE BY n' if automaton.consecutive else ''}"
        expected = {}
        for p, changes in partitions.items():
            automaton.spent[0] = 0
            rows = changelog.left(changes)
            try:
                found = oracle.matches(automaton, rows, name=lambda row: (row["id"], row["at"]))
            except (oracle.OverflowInt, oracle.TooMany):
                continue
            expected[p] = [row["at"] for row in rows if not any(a <= (row["id"], row["at"]) <= b for a, b, *_ in found)]
            expected[p] += [change["at"] for change in changes if change["id"] is None and change["op"] != "punctuate"]
        text = oracle.clause(automaton, "LAST(at) AS m_at, count(*) AS m_count", "ALL ROWS PER MATCH WITH UNMATCHED ROWS", words)
        text = text.replace("MEASURES", "MEASURES at AS m_own,")
        got = run(text, {p: partitions[p] for p in expected}) if expected else {}
        for p, rows in expected.items():
            left_out = [row for row in got.get(p, []) if row["m_count"] is None]
            assert len(left_out) == len(rows), f"{text}\nchanges {partitions[p]}"
            alone += len(rows)
    assert alone > 50


@pytest.mark.parametrize("seed", first(range(2), wider=1))
def test_changes_that_make_no_sense(seed):
    rng = random.Random(8200 + seed)
    text = "PARTITION BY p ORDER BY id MEASURES LAST(id) AS a AUTOMATON (STATE q1 FINAL ARC FROM q0 TO q1) CHANGES IN op ARRIVAL BY at"
    for _ in range(30):
        changes, kind = changelog.spoiled(rng, changelog.random_changes(rng, rng.randrange(6)))
        with pytest.raises(changelog.Refused):
            changelog.left(changes)
        with pytest.raises(MatchRuntimeError) as raised:
            run(text, {1: changelog.random_changes(rng, 3), 2: changes})
        assert raised.value.error_class == f"SPARKCEP.{kind}", changes


def change(at, op, id, v, w=1):
    return {"at": at, "op": op, "id": id, "v": v, "w": w, "s": "a", "n": id}


def test_a_lower_punctuation_takes_no_promise_back():
    text = "PARTITION BY p ORDER BY id MEASURES LAST(id) AS a AUTOMATON (STATE q1 FINAL ARC FROM q0 TO q1) CHANGES IN op ARRIVAL BY at PUNCTUATE BY w"
    begin = [change(1, "insert", 9, 0), change(2, "punctuate", 8, 0), change(3, "punctuate", 3, 0)]
    assert run(text, {1: [*begin, change(4, "insert", 8, 0), change(5, "insert", 7, 0, 2)]}) == {1: [{"a": 7}, {"a": 8}, {"a": 9}]}
    with pytest.raises(MatchRuntimeError) as raised:
        run(text, {1: [*begin, change(4, "insert", 7, 0)]})
    assert raised.value.error_class == "SPARKCEP.LATE_ROW"


def test_negative_zero_changes_no_match():
    """A match with 0.0 that becomes one with -0.0 is the same match, as GROUP BY has it."""
    text = """PARTITION BY p ORDER BY id MEASURES CHANGE() AS m_change, CHANGED_BY() AS m_by, r AS m_r
        AUTOMATON (REGISTER r DOUBLE STATE q2 FINAL ARC FROM q0 TO q1 WHEN v = 0 SET r = 0 ARC FROM q1 TO q1 WHEN v < 0 SET r = r * v ARC FROM q1 TO q2 WHEN v = 5)
        CHANGES IN op ARRIVAL BY at REPORT CHANGES"""
    found = run(text, {1: [change(1, "insert", 1, 0), change(2, "insert", 3, 5), change(3, "insert", 2, -1)]})
    assert found == {1: [{"m_change": "insert", "m_by": 2, "m_r": 0.0}]}


def _compare_changes(rng, automaton, partitions, chunk_rows=None, by=None, punctuations=False, typed=False):
    ahead = rng.choice((None, None, None, 0, 2)) if by is None or rng.random() < 0.1 else None
    speculate = rng.choice(("", " SPECULATE ALL")) if ahead is None else f" SPECULATE {ahead or 'NONE'}"
    words = f"CHANGES IN op ARRIVAL BY at{' CONSECUTIVE BY n' if automaton.consecutive else ''}{f' PUNCTUATE BY {by}' if by else ''} REPORT CHANGES{' WITH PUNCTUATIONS' * punctuations}{speculate}"
    expected = {}
    for p, changes in partitions.items():
        automaton.spent[0] = 0
        try:
            expected[p] = changes_told(automaton, changelog.changelog(automaton, changes, ahead, by=by, punctuations=punctuations), punctuations)
        except (oracle.OverflowInt, oracle.TooMany):
            continue
    measures = f"CHANGE() AS m_change, CHANGE_NUMBER() AS m_no, CHANGED_BY() AS m_by, {'PUNCTUATION() AS m_punctuation, ' * punctuations}{measures_of(automaton)[1]}"
    text = oracle.clause(automaton, measures, changes=words)
    return same_rows(with_types(rng, automaton, text) if typed else text, partitions, expected, chunk_rows)


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_lives_without_end_loops_on_empty_and_equal_rows(seed):
    rng = random.Random(8350 + seed)
    compared = told = 0
    for i in range(AUTOMATA // 2):
        automaton = replace(oracle.with_more(rng, oracle.random_automaton(rng)), consecutive=rng.random() < 0.2)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 12), rng.choice((0.0, 0.3, 0.7)), equal=0.3) for p in range(PARTITIONS // 2)}
        pairs, changes = _compare_changes(rng, automaton, partitions, (None, 1, 3)[i % 3], punctuations=rng.random() < 0.3, typed=True)
        compared, told = compared + pairs, told + changes
    assert told > compared > AUTOMATA


@pytest.mark.parametrize("seed", first(range(16), wider=1))
def test_changes_are_those_of_all_matches(seed):
    rng = random.Random(8300 + seed)
    compared = told = 0
    for i in range(AUTOMATA):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.3)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 12), rng.choice((0.0, 0.3, 0.7))) for p in range(PARTITIONS)}
        pairs, changes = _compare_changes(rng, automaton, partitions, (None, 1, 3)[i % 3])
        compared, told = compared + pairs, told + changes
    assert compared >= 0.7 * AUTOMATA * PARTITIONS
    assert told > 2 * compared


@pytest.mark.parametrize("by", [None, "w"])
@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_punctuations_among_the_changes(seed, by):
    """WITH PUNCTUATIONS: each comes where the definition has it."""
    rng = random.Random(8900 + seed)
    compared = told = 0
    for i in range(AUTOMATA):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.2)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 14), rng.choice((0.0, 0.3, 0.7)), by) for p in range(PARTITIONS)}
        pairs, changes = _compare_changes(rng, automaton, partitions, (None, 1, 3)[i % 3], by, punctuations=True)
        compared, told = compared + pairs, told + changes
    assert compared >= 0.7 * AUTOMATA * PARTITIONS
    assert told > compared


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_a_changelog_is_the_input_of_another_clause(seed):
    """No change comes before a punctuation, and the second clause has the matches of the first one's matches."""
    rng = random.Random(9300 + seed)
    chained = promises = 0
    measures = "CHANGE() AS op, CHANGE_NUMBER() AS at, coalesce(PUNCTUATION(), LAST(id)) AS id, FIRST(id) AS v, count(*) AS w"
    each = "PARTITION BY p ORDER BY id MEASURES id AS id AUTOMATON (STATE f FINAL ARC FROM a TO f) CHANGES IN op ARRIVAL BY at"
    for _ in range(4 * AUTOMATA):
        automaton = oracle.random_automaton(rng)
        if any(arc.on == oracle.EXPIRY for arc in automaton.arcs):
            continue  # such a match has the time of its expiry
        changes = changelog.random_changes(rng, rng.randrange(8, 30), 0.5)
        words = f"CHANGES IN op ARRIVAL BY at REPORT CHANGES WITH PUNCTUATIONS{rng.choice(('', ' SPECULATE NONE', ' SPECULATE 2'))}"
        try:
            log = run(oracle.clause(automaton, measures, changes=words), {0: changes}).get(0, [])
            net = run(oracle.clause(automaton, "LAST(id) AS id", changes="CHANGES IN op ARRIVAL BY at"), {0: changes}).get(0, [])
        except MatchRuntimeError:
            continue  # a register overflows
        if log:
            got = run(each, {0: [row | {"s": None, "n": None} for row in log]}).get(0, [])
            assert sorted(row["id"] for row in got) == sorted(row["id"] for row in net)
            chained += 1
            promises += any(row["op"] == "punctuate" for row in log)
    assert chained > AUTOMATA and promises > AUTOMATA // 2


def _of_values(rng):
    """An automaton in which most arcs take rows with some values of w alone: states in a line, or any."""
    if rng.random() < 0.7:
        states, limit = [f"q{i}" for i in range(rng.randrange(3, 7))], [("=", ("name", "w"), ("lit", 0)), ("in", ("name", "w"), 0, 1), ("=", ("lit", 1), ("name", "w"))]
        line = [oracle.Arc(one, other, when=rng.choice(limit), sets=(("n", ("name", "v")),) if i == 0 else ()) for i, (one, other) in enumerate(zip(states, states[1:]))]
        loops = [oracle.Arc(state, state, when=rng.choice(limit)) for state in states[1:] if rng.random() < 0.6]
        return oracle.Automaton({"n": None}, states[0], frozenset({states[-1], rng.choice((states[-1], *states[1:]))}), (*line, *loops), rng.choice((None, 9)))
    automaton = oracle.random_automaton(rng)
    arcs = []
    all_rows = rng.random() < 0.9
    for arc in automaton.arcs:
        if arc.on != oracle.ROW and all_rows:
            arc = replace(arc, on=oracle.ROW)
        if arc.on == oracle.ROW and rng.random() < 0.9:
            limit = ("=", ("name", "w"), ("lit", rng.randrange(3)))
            arc = replace(arc, when=limit if arc.when is None or rng.random() < 0.7 else ("and", limit, arc.when))
        arcs.append(arc)
    return replace(automaton, arcs=tuple(arcs), consecutive=rng.random() < 0.1)


@pytest.mark.parametrize("seed", first(range(16), wider=1))
def test_punctuations_of_rows_with_one_value(seed, monkeypatch):
    """PUNCTUATE BY: the changes are those of the definition, and the same where nothing is dropped; something is."""
    rng, dropped = random.Random(8600 + seed), Counter()
    drop, clean = changelog_engine.Changelog._drop, changelog_engine.Changelog._clean

    def counted(self, row, states):
        before = len(self.log.records(row))
        drop(self, row, states)
        dropped["some"] += 0 < len(self.log.records(row)) < before
        dropped["all"] += len(self.log.records(row)) == 0 < before

    def cleaned(self, row):
        before = self.state[S_RECORDS]
        clean(self, row)
        dropped["clean"] += self.state[S_RECORDS] < before

    monkeypatch.setattr(changelog_engine.Changelog, "_drop", counted)
    monkeypatch.setattr(changelog_engine.Changelog, "_clean", cleaned)
    compared = told = 0
    for i in range(AUTOMATA):
        automaton = _of_values(rng)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 20), 0.5, "w", rng.choice((0, 0, 0, 0.2))) for p in range(PARTITIONS)}
        monkeypatch.setattr(changelog_engine.Changelog, "cleans", i % 6 != 5)
        pairs, changes = _compare_changes(rng, automaton, partitions, (None, 1, 3)[i % 3], "w")
        compared, told = compared + pairs, told + changes
    assert compared >= 0.7 * AUTOMATA * PARTITIONS
    assert told > compared // 2 and min(dropped["some"] + dropped["all"], dropped["clean"]) > 4


@pytest.mark.parametrize(("promise", "of"), [({}, ""), ({"w": 1}, " PUNCTUATE BY w")])
def test_punctuations_bound_what_is_kept(promise, of, monkeypatch):
    """Computations of 20 rows behind 600 rows, which one punctuation in 10 rows leaves without use."""
    row = {"v": 0, "w": 1, "s": None, "n": None, "op": "insert"}
    rows = [row | {"id": i, "at": 2 * (i if i % 10 != 5 else i + 3)} for i in range(600)]
    promises = [row | {"id": i, "at": 2 * i + 15, "op": "punctuate", "w": None} | promise for i in range(0, 600, 10)]
    text = (
        "PARTITION BY p ORDER BY id MEASURES CHANGE() AS change, count(*) AS rows AUTOMATON (REGISTER n INT STATE q2 FINAL ARC FROM q0 TO q1 WHEN w = 1 SET n = id "
        f"ARC FROM q1 TO q1 WHEN w = 1 AND n + 20 > id ARC FROM q1 TO q2 WHEN w = 1 AND n + 20 = id) CHANGES IN op ARRIVAL BY at{of} REPORT CHANGES"
    )
    bounded = Settings(max_state_bytes=1 << 17)
    found = run(text, {0: rows + promises}, settings=bounded)
    assert found == run(text, {0: rows + promises}) and len(found[0]) > 580
    for cleans, some in ((True, rows), (False, rows + promises)):
        monkeypatch.setattr(changelog_engine.Changelog, "cleans", cleans)
        with pytest.raises(MatchRuntimeError, match="STATE_LIMIT"):
            run(text, {0: some}, settings=bounded)


def test_punctuations_of_one_source_cost_rows_in_proportion(monkeypatch):
    """Nothing can be dropped, as the other source promises nothing. All rows are gone through after as many records came."""
    gone_through, states = [0], NeededRuns.states

    def counted(self, live):
        gone_through[0] += len(live)
        return states(self, live)

    monkeypatch.setattr(NeededRuns, "states", counted)
    rows = [change(2 * i if i % 10 != 5 else 2 * i + 7, "insert", i, 0, int(i % 4 == 0)) for i in range(2000)]
    promises = [change(2 * i + 15, "punctuate", i, None, 1) for i in range(0, 2000, 10)]
    text = (
        "PARTITION BY p ORDER BY id MEASURES CHANGE() AS change, FIRST(id) AS a, LAST(id) AS z AUTOMATON (STATE q2 FINAL ARC FROM q0 TO q1 WHEN w = 1 ARC FROM q1 TO q2 WHEN v = 0) "
        "CHANGES IN op ARRIVAL BY at PUNCTUATE BY w REPORT CHANGES"
    )
    assert len(run(text, {0: rows + promises})[0]) >= 40 and 0 < gone_through[0] < 8 * len(rows)


def test_expiry_looks_at_last_rows_alone(monkeypatch):
    """A run that waits has records after all rows that it passes. It expires after the last one."""
    calls, walk = [0], changelog_engine.Changelog._walk

    def counted(self, *of, **more):
        calls[0] += 1
        return walk(self, *of, **more)

    monkeypatch.setattr(changelog_engine.Changelog, "_walk", counted)
    rows = [change(2 * i, "insert", i, int(i % 3 == 0)) for i in range(200)]
    promises = [change(2 * i + 1, "punctuate", i - 2, None) for i in range(4, 200, 5)]
    text = (
        "PARTITION BY p ORDER BY id MEASURES CHANGE() AS change, FIRST(id) AS a, LAST(id) AS z, MATCH_FROM() AS at AUTOMATON (STATE q2 FINAL, q1 IGNORE WHEN v < 9 "
        "ARC FROM q0 TO q1 WHEN v = 1 ARC FROM q1 TO q2 ON EXPIRY) WINDOW 50 CHANGES IN op ARRIVAL BY at REPORT CHANGES"
    )
    found = run(text, {0: rows + promises})[0]
    assert [tuple(row.values()) for row in found] == [("insert", i, min(i + 49, 199), i + 50) for i in range(0, 200, 3)] and calls[0] <= len(found)


def test_changes_of_small_partitions_are_emitted_together(monkeypatch):
    """Each call for output costs as much as many rows. Numbers of changes are those of the partition."""
    calls, made = [0], consolidate._found

    def counted(*of):
        calls[0] += 1
        return made(*of)

    monkeypatch.setattr(consolidate, "_found", counted)
    rows = [change(1, "insert", 1, 0), change(2, "insert", 4, 0), change(3, "insert", 2, 0)]
    text = (
        "PARTITION BY p ORDER BY id MEASURES CHANGE_NUMBER() AS no, CHANGE() AS change, FIRST(id) AS a, LAST(id) AS z, MATCH_ID() IS NOT NULL AS id AUTOMATON (STATE q2 FINAL "
        "ARC FROM q0 TO q1 ARC FROM q1 TO q2) CHANGES IN op ARRIVAL BY at REPORT CHANGES"
    )
    wanted = [(1, "insert", 1, 4, 1), (2, "retract", 1, 4, 1), (3, "insert", 1, 2, 1), (4, "insert", 2, 4, 1)]
    assert {p: [tuple(row.values()) for row in found] for p, found in run(text, dict.fromkeys(range(50), rows)).items()} == dict.fromkeys(range(50), wanted)
    assert calls[0] <= 2


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_20_000_logs(batch):
    """What changes tell of random logs, in batches of a few thousand."""
    rng, logs, told = random.Random(8800 + batch), 0, 0
    while logs < 20_000 // 8:
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.3)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 14), rng.choice((0.0, 0.3, 0.7))) for p in range(PARTITIONS)}
        pairs, changes = _compare_changes(rng, automaton, partitions)
        logs, told = logs + pairs, told + changes
    assert told > 2 * logs


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_rooms_that_are_too_small_change_nothing(seed, monkeypatch):
    for module, name in ((register_arrays, "RECORDS"), (register_arrays, "MATCHES"), (log_engine, "KEPT"), (log_engine, "CHANGES"), (changelog_engine, "BLOCK"), (changelog_engine, "FLUSH")):
        monkeypatch.setattr(module, name, 1)
    rng = random.Random(8400 + seed)
    told = 0
    for _ in range(2 * AUTOMATA // 3):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.3)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 12), rng.choice((0.0, 0.5))) for p in range(PARTITIONS)}
        told += _compare_changes(rng, automaton, partitions)[1]
    assert told > 125


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_rows_of_matches_that_come_and_go(seed):
    """ALL ROWS PER MATCH with the names of arcs: a match whose rows or arcs change goes and comes."""
    rng = random.Random(8500 + seed)
    told = 0
    for i in range(AUTOMATA):
        automaton = oracle.random_automaton(rng)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 10), 0.5) for p in range(PARTITIONS)}
        measures = "CHANGE() AS m_change, CHANGED_BY() AS m_by, CLASSIFIER() AS m_label, count(*) AS m_count, at AS m_at"
        text = oracle.clause(automaton, measures, "ALL ROWS PER MATCH", "CHANGES IN op ARRIVAL BY at REPORT CHANGES")
        expected = {}
        for p, changes in partitions.items():
            automaton.spent[0] = 0
            try:
                found = changelog.changelog(automaton, changes, key=lambda match, rows: (*match, rows))
            except (oracle.OverflowInt, oracle.TooMany):
                continue
            expected[p] = [
                {"m_change": change, "m_by": cause, "m_label": label, "m_count": count, "m_at": at}
                for change, cause, match, rows in found for count, (label, at) in enumerate(zip(match[-1], rows, strict=True), 1)
            ]  # fmt: skip
        told += same_rows(text, partitions, expected, (None, 2)[i % 2], "id")[1]
    assert told > 190


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_rows_that_no_measure_tells_apart(seed):
    """A match that only reads other rows than before does not change."""
    rng = random.Random(8600 + seed)
    told = less = 0
    for _ in range(AUTOMATA // 2):
        automaton = oracle.random_automaton(rng)
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 12), 0.5) for p in range(PARTITIONS)}
        text = oracle.clause(automaton, "CHANGE() AS m_change, CHANGED_BY() AS m_by, max(w) AS m_max, LAST(at) AS m_at", changes="CHANGES IN op ARRIVAL BY at REPORT CHANGES")
        expected = {}
        for p, changes in partitions.items():
            automaton.spent[0] = 0
            values = {change["at"]: change["w"] for change in changes}

            def most(rows, values=values):
                return max((values[at] for at in rows if values[at] is not None), default=None)

            try:
                found = changelog.changelog(automaton, changes, key=lambda match, rows: (*match[:-1], most(rows)))
                less += len(changelog.changelog(automaton, changes)) - len(found)
            except (oracle.OverflowInt, oracle.TooMany):
                continue
            expected[p] = [{"m_change": change, "m_by": cause, "m_max": most(rows), "m_at": rows[-1]} for change, cause, _, rows in found]
        told += same_rows(text, partitions, expected)[1]
    assert told > 125
    assert less > 5


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_the_changes_add_up_to_net_whatever_the_arrival(seed):
    rng = random.Random(8700 + seed)
    told = 0
    for _ in range(AUTOMATA // 2):
        automaton = oracle.random_automaton(rng)
        rows = list({row["id"]: dict(row, n=None, op="insert") for row in oracle.random_rows(rng, rng.randrange(1, 25))}.values())
        partitions = {p: [dict(row, at=at) for at, row in enumerate(rng.sample(rows, len(rows)))] for p in range(6)}
        measures = measures_of(automaton)[1]
        texts = [oracle.clause(automaton, f"{more}{measures}", changes=f"CHANGES IN op ARRIVAL BY at{words}") for more, words in (("", ""), ("CHANGE() AS c, ", " REPORT CHANGES"))]
        try:
            net, changes = (run(text, partitions) for text in texts)
        except MatchRuntimeError:
            continue
        for p in partitions:
            left = Counter()
            for row in changes.get(p, []):
                left[tuple(value for name, value in row.items() if name != "c")] += 1 if row["c"] == "insert" else -1
            assert left == Counter(tuple(row.values()) for row in net.get(p, [])), f"{texts[1]}\nchanges {partitions[p]}"
            assert net.get(p) == net.get(0)
            told += len(changes.get(p, []))
    assert told > 190


def insertions(rng, count, numbered):
    """Rows that only come, in any order, and now and then a punctuation that promises nothing; ``numbered``: by numbers that rise
    with their times, with gaps, once in a while not."""
    times = sorted(rng.sample(range(3 * count), count))
    numbers = sorted(rng.sample(range(count + 3), count))
    if not numbered or rng.random() < 0.2:
        numbers[rng.randrange(count)] = rng.choice((None, 0, count))
    turns = rng.sample(range(count), count) if rng.random() < 0.8 else list(range(count))
    changes = [
        {"id": time, "v": rng.choice((None, 0, 1, 2, 3)), "w": rng.choice((None, 0, 1, 2)), "s": None, "n": number, "op": rng.choice(("insert", None)), "at": 2 * turn}
        for time, number, turn in zip(times, numbers, turns)
    ]
    if rng.random() < 0.3:
        changes.append({"id": 0, "v": None, "w": None, "s": None, "n": None, "op": "punctuate", "at": 2 * rng.randrange(count) + 1})
    return sorted(changes, key=lambda change: change["at"])


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_rows_that_only_come(seed, monkeypatch):
    """In order, or one after the other by their numbers, matches are found in one pass; with that switched off they are the
    same."""
    rng, told, foreseen = random.Random(8800 + seed), 0, [0]
    kept = AppendOnly.partitions

    def counted(*parts):
        found = kept(*parts)
        foreseen[0] += int(found.sum())
        return found

    monkeypatch.setattr(AppendOnly, "partitions", counted)
    for i in range(AUTOMATA):
        automaton = replace(oracle.random_automaton(rng), consecutive=rng.random() < 0.7)
        partitions = {p: insertions(rng, rng.randrange(1, 9), rng.random() < 0.8) for p in range(PARTITIONS)}
        pairs, changes = _compare_changes(rng, automaton, partitions, (None, 1, 3)[i % 3])
        told += changes
    assert told > AUTOMATA * PARTITIONS // 2
    assert foreseen[0] > AUTOMATA * PARTITIONS // 12


def test_late_rows_are_taken_many_at_a_time(monkeypatch):
    """The kernel is called as often as there is no room, and not once a row."""
    rng, calls = random.Random(8900), [0]
    change = changelog_engine.kernels.change

    def counted(*arguments):
        calls[0] += 1
        return change(*arguments)

    monkeypatch.setattr(changelog_engine.kernels, "change", counted)
    arrival = sorted(range(2000), key=lambda i: i + (rng.randrange(200) if rng.random() < 0.3 else 0))
    came = {row: at for at, row in enumerate(arrival)}
    rows = [{"id": i, "v": rng.randrange(5), "w": 0, "s": None, "n": None, "op": "insert", "at": came[i]} for i in range(2000)]
    text = (
        "PARTITION BY p ORDER BY id MEASURES CHANGE() AS c, FIRST(id) AS a AUTOMATON (STATE q2 FINAL ARC FROM q0 TO q1 WHEN v = 0 ARC FROM q1 TO q1 WHEN v < 3 "
        "ARC FROM q1 TO q2 WHEN v = 4) WINDOW 20 CHANGES IN op ARRIVAL BY at REPORT CHANGES"
    )
    assert len(run(text, {0: rows})[0]) > 300
    assert calls[0] < 50


def test_what_went_takes_no_room(monkeypatch):
    """A match of 4 rows that comes and goes 400 times counts once for the limits, and its number is given again."""
    monkeypatch.setattr(changelog_engine, "FLUSH", 16)
    left, told = [], log_engine.RunLog.changes

    def counted(self):
        found = told(self)
        left.append((int(self.state[S_EVENTS]), int(self.state[S_RECORDS])))
        return found

    monkeypatch.setattr(log_engine.RunLog, "changes", counted)
    row = {"v": 1, "w": 0, "s": None, "n": None}
    rows = [row | {"id": i, "op": "insert", "at": i} for i in range(4)]
    rows += [row | {"id": 1, "op": ("retract", "insert")[i % 2], "at": 4 + i} for i in range(800)]
    text = (
        "PARTITION BY p ORDER BY id MEASURES CHANGE() AS c, count(*) AS n AUTOMATON (REGISTER n INT = 0 STATE q1 START, q2 FINAL ARC FROM q1 TO q1 WHEN n < 3 SET n = n + 1 "
        "ARC FROM q1 TO q2 WHEN n = 3) CHANGES IN op ARRIVAL BY at REPORT CHANGES"
    )
    found = run(text, {0: rows}, settings=Settings(max_matches=3))
    assert [row["c"] for row in found[0]] == ["insert", *["retract", "insert"] * 400]
    assert len(left) > 40 and max(events for events, _ in left) <= 32 and max(records for _, records in left) <= 12
