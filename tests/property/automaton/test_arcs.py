"""Arcs that come and go, against the definition; what REPORT CHANGES says against REPORT NET; static arcs against those that are
always there."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from sparkcep.engine.automaton import register_arrays
from sparkcep.engine.changelog import changelog as changelog_engine
from sparkcep.engine.changelog import run_log as log_engine
from sparkcep.errors import MatchRuntimeError
from sparkcep.settings import Settings
from tests.oracle import arcs as oracle_arcs
from tests.oracle import automaton as oracle
from tests.oracle import changelog
from tests.property.automaton.test_automata import changes_told, measures_of, wanted
from tests.property.in_process import run
from tests.selection import first, further

AUTOMATA, PARTITIONS = 7, 8  # a seed
FAILS = (oracle.OverflowInt, oracle.TooMany, oracle_arcs.Refused)


def random_automaton(rng, texts=False, **more):
    """A random automaton of which some arcs are templates; with ``texts`` perhaps none."""
    while True:
        automaton = oracle.random_automaton(rng)
        found = oracle_arcs.with_templates(rng, replace(automaton, **more), lambda names: oracle.random_condition(rng, names))
        if texts or any(arc.parameters is not None for arc in found.arcs):
            return found


def texts_of(rng, automaton):
    """Makes random arcs as text."""
    return lambda: oracle_arcs.random_text(
        rng, automaton, lambda names: oracle.random_condition(rng, names), lambda names: oracle._bounded(rng, names), oracle.to_sql,
    )


WITH_TEXTS = "ARCS FROM (SELECT *, from_state FROM active)"  # the name of the column tells that arcs come as text, too


def of(events, p):
    """The rows of ARCS FROM that are for a partition."""
    return tuple(event for event in events if event.get("p") in (None, p))


def compare(text, partitions, events, expected, chunk_rows=None, without=None):
    """Compares the output of the partitions of which it is known; (how many these are, how many rows they have)."""
    got = run(text, partitions, chunk_rows, arcs=events)
    for p, rows in expected.items():
        assert [{k: v for k, v in row.items() if k != without} for row in got.get(p, [])] == rows, f"{text}\npartition {p}: {partitions[p]}\narcs {of(events, p)}"
    return len(expected), sum(map(len, expected.values()))


def without_failures(partitions, wanted_of):
    """(the partitions of which the oracle knows the output, their output)."""
    expected = {}
    for p in partitions:
        try:
            expected[p] = wanted_of(p)
        except FAILS:
            continue
    return expected


@pytest.mark.parametrize("texts", [False, further(True)])
@pytest.mark.parametrize("seed", first(range(48), wider=2))
def test_net_is_of_the_arcs_that_are_left(seed, texts):
    """Rows that only come, arcs as a bag; partitions whose arcs differ; arcs with parameters, and arcs as text beside them."""
    rng = random.Random((9600 if texts else 9000) + seed)
    compared = matched = 0
    for i in range(AUTOMATA):
        automaton = random_automaton(rng, texts)
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 8)) for p in range(PARTITIONS)}
        events = oracle_arcs.random_events(
            rng, automaton, range(rng.randrange(1, 10)), range(10), default=False, changes=rng.random() < 0.6, own=range(PARTITIONS),
            texts=texts_of(rng, automaton) if texts else None,
        )
        ids = [row["id"] for rows in partitions.values() for row in rows]
        if not ids or not events:
            continue

        def wanted_of(p, automaton=automaton, events=events, partitions=partitions):
            automaton.spent[0] = 0
            return wanted(oracle_arcs.Arcs(automaton, of(events, p), bag=True).at_the_end(), partitions[p])

        expected = without_failures(partitions, wanted_of)
        text = oracle.clause(automaton, measures_of(automaton)[1], table=WITH_TEXTS if texts else "ARCS FROM active")
        pairs, rows = compare(text, {p: partitions[p] for p in expected}, events, expected, (None, 1, 3)[i % 3]) if expected else (0, 0)
        compared, matched = compared + pairs, matched + rows
    assert compared >= 0.6 * AUTOMATA * PARTITIONS
    assert matched > compared


def log(rng, automaton, parts=PARTITIONS, punctuate=False, **more):
    """Random changes of some partitions and of their arcs."""
    partitions = {p: changelog.random_changes(rng, rng.randrange(1, 11), rng.choice((0.0, 0.3, 0.7))) for p in range(parts)}
    partitions = {p: [dict(change, at=10 * change["at"]) for change in changes if punctuate or change["op"] != "punctuate"] for p, changes in partitions.items()}
    turns = sorted(rng.sample(range(0, 110, 10), rng.randrange(1, 8)))
    events = oracle_arcs.random_events(rng, automaton, [turn + 4 for turn in turns], range(10), **more)
    for event in events:
        event["at"] = 10 * (int(event["at"]) // 10) + 4 + (event["at"] - int(event["at"]) > 0)
    return partitions, sorted(events, key=lambda event: event["at"])


def modes(rng):
    """Which kinds of rows ARCS FROM has, and whether there are punctuations."""
    return rng.choice((
        {"explicit": True, "default": False, "promise": True, "punctuate": True}, {"explicit": True, "default": True}, {"explicit": False, "punctuate": True},
        {"explicit": True, "default": False},
    ))  # fmt: skip


def compare_log(rng, automaton, partitions, events, mode, chunk_rows=None):
    """Compares REPORT CHANGES, and REPORT NET, of a log."""
    ahead = rng.choice((None, None, 0, 2))
    words = f"CHANGES IN op ARRIVAL BY at{' CONSECUTIVE BY n' if automaton.consecutive else ''}"
    every = tuple(change for changes in partitions.values() for change in changes)
    explicit = mode.get("explicit", True)

    def arcs(p):
        automaton.spent[0] = 0
        return oracle_arcs.Arcs(automaton, of(events, p), every, explicit)

    punctuations = rng.random() < 0.3
    told = without_failures(partitions, lambda p: changes_told(automaton, changelog.changelog(automaton, partitions[p], ahead, arcs=arcs(p), punctuations=punctuations), punctuations))
    net = without_failures(told, lambda p: wanted(arcs(p).at_the_end(), changelog.left(partitions[p])))
    if set(told) != set(partitions):  # the largest time of all partitions is another without some
        return 0, 0
    _, measures = measures_of(automaton)
    table = f"{WITH_TEXTS if mode.get('texts') else 'ARCS FROM active'} ARRIVAL BY at"
    compare(oracle.clause(automaton, measures, changes=words, table=table), partitions, events, net, chunk_rows)
    measures = f"CHANGE() AS m_change, CHANGE_NUMBER() AS m_no, CHANGED_BY() AS m_by, {'PUNCTUATION() AS m_punctuation, ' * punctuations}{measures}"
    words += " REPORT CHANGES" + " WITH PUNCTUATIONS" * punctuations + ("" if ahead is None else f" SPECULATE {ahead or 'NONE'}")
    return compare(oracle.clause(automaton, measures, changes=words, table=table), partitions, events, told, chunk_rows)


@pytest.mark.parametrize("texts", [further(False), True])
@pytest.mark.parametrize("seed", first(range(48), wider=2))
def test_changes_are_those_of_all_matches(seed, texts):
    rng = random.Random((9700 if texts else 9100) + seed)
    compared = told = 0
    for i in range(AUTOMATA):
        automaton, mode = random_automaton(rng, texts, consecutive=rng.random() < 0.2), modes(rng)
        if texts:
            mode = mode | {"texts": texts_of(rng, automaton)}
        partitions, events = log(rng, automaton, own=rng.choice(((), range(PARTITIONS))), **mode)
        if any(partitions.values()) and events:
            pairs, changes = compare_log(rng, automaton, {p: some for p, some in partitions.items() if some}, events, mode, (None, 1, 3)[i % 3])
            compared, told = compared + pairs, told + changes
    assert compared >= 0.25 * AUTOMATA * PARTITIONS
    assert told > compared // 4


@pytest.mark.parametrize("seed", first(range(36), wider=2))
def test_arcs_that_take_no_row(seed):
    """ON EMPTY and ON EXPIRY: computations go on from what an arc has made that is valid no more."""
    rng = random.Random(9500 + seed)
    compared = told = 0
    while compared < AUTOMATA * PARTITIONS:
        automaton = random_automaton(rng)
        mode = {"explicit": True, "default": False, "promise": True, "punctuate": True}
        silent = {arc.source for arc in automaton.arcs if arc.parameters == () and arc.on == "empty"} & {arc.source for arc in automaton.arcs if arc.on == "row"}
        reached = {arc.target for arc in automaton.arcs if arc.parameters == () and arc.on == "empty"} & {arc.source for arc in automaton.arcs if arc.on == "row"}
        expiring = any(arc.parameters == () and arc.on == "expiry" for arc in automaton.arcs)
        if not (silent and reached or expiring and rng.random() < 0.3):
            continue
        partitions, events = log(rng, automaton, **mode)
        if any(partitions.values()) and events:
            pairs, changes = compare_log(rng, automaton, {p: some for p, some in partitions.items() if some}, events, mode)
            compared, told = compared + pairs, told + changes
    assert told > compared // 2


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_20_000_logs(batch):
    """Rows and arcs that come and go, in batches of a few thousand logs."""
    rng, logs, told = random.Random(9800 + batch), 0, 0
    while logs < 20_000 // 8:
        automaton, mode = random_automaton(rng, consecutive=rng.random() < 0.2), modes(rng)
        partitions, events = log(rng, automaton, own=rng.choice(((), range(PARTITIONS))), **mode)
        if any(partitions.values()) and events:
            pairs, changes = compare_log(rng, automaton, {p: some for p, some in partitions.items() if some}, events, mode)
            logs, told = logs + pairs, told + changes
    assert told > logs


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_rooms_that_are_too_small_change_nothing(seed, monkeypatch):
    for module, name in ((register_arrays, "RECORDS"), (register_arrays, "MATCHES"), (log_engine, "KEPT"), (log_engine, "CHANGES"), (changelog_engine, "BLOCK"), (changelog_engine, "FLUSH")):
        monkeypatch.setattr(module, name, 1)
    rng = random.Random(9200 + seed)
    told = 0
    for _ in range(AUTOMATA):
        automaton, mode = random_automaton(rng), modes(rng)
        partitions, events = log(rng, automaton, parts=3, **mode)
        if any(partitions.values()) and events:
            told += compare_log(rng, automaton, {p: some for p, some in partitions.items() if some}, events, mode)[1]
    assert told > 0


@pytest.mark.parametrize("seed", first(range(24), 0, wider=1))
def test_the_changes_add_up_to_net_whatever_the_arrival(seed):
    """With lifetimes of their own the order in which rows and arcs come does not matter in the end; labels and all."""
    rng = random.Random(9300 + seed)
    told = 0
    for _ in range(AUTOMATA):
        automaton = random_automaton(rng)
        rows = list({row["id"]: dict(row, n=None, op="insert") for row in oracle.random_rows(rng, rng.randrange(1, 15))}.values())
        events = [dict(event, p=None) for event in oracle_arcs.random_events(rng, automaton, range(rng.randrange(1, 7)), range(12), default=False, changes=False)]
        if not events:
            continue
        measures, nets = f"CLASSIFIER() AS c, {measures_of(automaton)[1]}", []
        for _ in range(4):
            turns = rng.sample(range(len(rows) + len(events)), len(rows) + len(events))
            partitions, arcs = {0: [dict(row, at=at) for row, at in zip(rows, turns)]}, [dict(event, at=at) for event, at in zip(events, turns[len(rows):])]
            words = "CHANGES IN op ARRIVAL BY at"
            try:
                net, changes = (
                    run(oracle.clause(automaton, more + measures, changes=words + report, table="ARCS FROM active ARRIVAL BY at"), partitions, arcs=arcs)
                    for more, report in (("", ""), ("CHANGE() AS d, ", " REPORT CHANGES"))
                )
            except MatchRuntimeError:
                break
            left = Counter()
            for row in changes.get(0, []):
                left[tuple(value for name, value in row.items() if name != "d")] += 1 if row["d"] == "insert" else -1
            assert +left == Counter(tuple(row.values()) for row in net.get(0, [])), f"{automaton}\nrows {partitions}\narcs {arcs}"
            assert not -left
            nets.append(net)
            told += len(changes.get(0, []))
        assert all(net == nets[0] for net in nets)
    assert told > 30


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_arcs_that_are_always_there_are_static_ones(seed):
    rng = random.Random(9400 + seed)
    matched = 0
    for i in range(AUTOMATA):
        automaton = oracle.random_automaton(rng)
        named = {arc.name for arc in automaton.arcs if arc.name is not None and rng.random() < 0.7}
        templates = replace(automaton, arcs=tuple(replace(arc, parameters=()) if arc.name in named else arc for arc in automaton.arcs))
        if not named:
            continue
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 9)) for p in range(PARTITIONS)}
        events = [{"arc": name.upper(), "op": None, "valid_from": None, "valid_to": None, "at": 0} for name in sorted(named)]
        measures = f"MATCH_NUMBER() AS m_no, CLASSIFIER() AS m_label, {measures_of(automaton)[1]}"
        try:
            static = run(oracle.clause(automaton, measures), partitions)
        except MatchRuntimeError:
            continue
        assert run(oracle.clause(templates, measures, table="ARCS FROM active"), partitions, (None, 1)[i % 2], arcs=events) == static
        matched += sum(map(len, static.values()))
    assert matched > 30


def test_an_arc_on_empty_that_comes_where_another_begins():
    """Lists stand where they stood before, so that their place alone does not tell that what begins before the first row is another
    now."""
    text = """PARTITION BY p ORDER BY id MEASURES CHANGE() AS d, CHANGED_BY() AS at, FIRST(id) AS first AUTOMATON (STATE q2 FINAL  ARC e() FROM q0 TO q1 ON EMPTY  ARC x() FROM q3 TO q2
      ARC FROM q1 TO q2  ARCS FROM active ARRIVAL BY at) CHANGES IN op ARRIVAL BY at REPORT CHANGES"""
    rows = [{"id": i, "v": 0, "w": 0, "s": None, "op": "insert", "n": i, "at": at} for i, at in ((1, 1), (2, 4))]
    events = [{"arc": arc, "op": op, "valid_from": 0, "at": at} for arc, op, at in (("x", "insert", 0), ("e", "insert", 2), ("e", "retract", 5))]
    told = run(text, {0: rows}, arcs=events)[0]
    assert [tuple(row.values()) for row in told] == [("insert", 2, 1), ("insert", 4, 2), ("retract", 5, 1), ("retract", 5, 2)]


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_arcs_in_default_mode_over_rows_that_only_come(seed):
    """Matches are found in one pass where no arc reaches back."""
    rng, told = random.Random(9950 + seed), 0
    for i in range(AUTOMATA // 2):
        automaton, mode = random_automaton(rng), {"explicit": rng.random() < 0.3, "default": True}
        partitions, events = log(rng, automaton, own=rng.choice(((), range(PARTITIONS))), changes=rng.random() < 0.7, **mode)
        partitions = {p: [change for change in changes if change["op"] in ("insert", None)] for p, changes in partitions.items()}
        if rng.random() < 0.8:  # in their order
            partitions = {p: [dict(row, at=at) for row, at in zip(sorted(rows, key=lambda row: (row["id"] is not None, row["id"])), sorted(row["at"] for row in rows))] for p, rows in partitions.items()}
        partitions = {p: rows for p, rows in partitions.items() if rows}
        if partitions and events:
            told += compare_log(rng, automaton, partitions, events, mode, (None, 1, 3)[i % 3])[1]
    assert told > 5


@pytest.mark.parametrize(("op", "until", "told"), [("retract", None, [("retract", 3, 1)]), ("delete", 1, [("retract", 3, 1)]), ("delete", None, [])])
def test_what_undoes_an_arc_of_rows_in_order(op, until, told):
    """An arc in default mode before all rows; what reaches back to them takes its match away."""
    text = """PARTITION BY p ORDER BY id MEASURES CHANGE() AS d, CHANGED_BY() AS at, FIRST(id) AS first AUTOMATON (STATE q1 FINAL  ARC e() FROM q0 TO q1
      ARCS FROM active ARRIVAL BY at) CHANGES IN op ARRIVAL BY at REPORT CHANGES"""
    rows = [{"id": i, "v": 0, "w": 0, "s": None, "op": "insert", "n": i, "at": at} for i, at in ((1, 1), (2, 4))]
    events = [{"arc": "e", "op": "insert", "at": 0, "valid_to": None}, {"arc": "e", "op": op, "at": 3, "valid_to": until}]
    found = run(text, {0: rows}, arcs=events)[0]
    assert [tuple(row.values()) for row in found] == [("insert", 1, 1), *told]


def test_one_change_of_an_arc_takes_matches_back_in_their_order():
    """By their last rows, then by their first ones, as they were told."""
    text = """PARTITION BY p ORDER BY id MEASURES CHANGE() AS d, CHANGED_BY() AS at, FIRST(id) AS first, LAST(id) AS last AUTOMATON (STATE q1 FINAL  ARC e() FROM q0 TO q1
      ARC FROM q1 TO q1  ARCS FROM active ARRIVAL BY at) CHANGES IN op ARRIVAL BY at REPORT CHANGES"""
    rows = [{"id": i, "v": 0, "w": 0, "s": None, "op": "insert", "n": i, "at": i} for i in (1, 2, 3)]
    events = [{"arc": "e", "op": op, "valid_from": 0, "at": at} for op, at in (("insert", 0), ("retract", 5), ("insert", 6))]
    told = [tuple(row.values()) for row in run(text, {0: rows}, arcs=events)[0]]
    matches = [(1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3)]
    assert told[len(matches) :] == [(change, at, *match) for change, at in (("retract", 5), ("insert", 6)) for match in matches]


def test_matches_that_a_change_leaves_count_once():
    """Each change of an arc goes through all rows again, and finds the matches that are there."""
    text = """PARTITION BY p ORDER BY id MEASURES CHANGE() AS d, FIRST(id) AS first AUTOMATON (STATE q1 FINAL  ARC FROM q0 TO q1  ARC e(k INT) FROM q0 TO q1 WHEN v = k
      ARCS FROM active ARRIVAL BY at) CHANGES IN op ARRIVAL BY at REPORT CHANGES"""
    rows = [{"id": i, "v": 0, "w": 0, "s": None, "op": "insert", "n": i, "at": i} for i in (1, 2, 3)]
    events = [{"arc": "e", "k": 0, "op": op, "valid_from": 0, "at": 10 + i} for i, op in enumerate(["insert", "retract"] * 4)]
    told = run(text, {0: rows}, arcs=events, settings=Settings(max_matches=8))[0]
    assert [tuple(row.values()) for row in told] == [("insert", 1), ("insert", 2), ("insert", 3)]


def test_partitions_with_the_same_arcs_share_their_graphs(monkeypatch):
    """A graph costs more than a small partition. An arc that comes late makes a second one."""
    calls, made = [0], changelog_engine.timetable

    def counted(*of):
        calls[0] += 1
        return made(*of)

    monkeypatch.setattr(changelog_engine, "timetable", counted)
    text = """PARTITION BY p ORDER BY id MEASURES CHANGE() AS d, CHANGED_BY() AS at, LAST(id) AS last AUTOMATON (STATE q1 FINAL  ARC e(k INT) FROM q0 TO q1 WHEN v = k
      ARCS FROM active ARRIVAL BY at) CHANGES IN op ARRIVAL BY at REPORT CHANGES"""
    rows = [{"id": i, "v": i, "w": 0, "s": None, "op": "insert", "n": i, "at": at} for i, at in ((1, 1), (3, 2), (2, 3))]
    events = [{"arc": "e", "k": k, "op": "insert", "valid_from": valid, "at": at} for k, valid, at in ((1, None, 0), (2, None, 0), (3, 0, 4))]
    events += [{"arc": "e", "k": 3, "op": "insert", "p": 7, "valid_from": None, "at": 0}]
    told = {p: [tuple(row.values()) for row in found] for p, found in run(text, dict.fromkeys(range(20), rows), arcs=events).items()}
    wanted = [("insert", 1, 1), ("insert", 3, 2)]
    assert told == dict.fromkeys(range(20), [*wanted, ("insert", 4, 3)]) | {7: [wanted[0], ("insert", 2, 3), wanted[1]]}
    assert calls[0] == 4  # two, and two of the partition with an arc of its own
