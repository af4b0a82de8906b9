"""Automata against their oracle: random automata over random partitions, in whole buffers and row by row; linear ones against
PATTERN."""

from __future__ import annotations

import random

import pytest

from sparkcep.engine.automaton import register_arrays
from sparkcep.errors import MatchRuntimeError
from tests.oracle import automaton as oracle
from tests.property.in_process import run
from tests.selection import first

AUTOMATA, PARTITIONS = 15, 12  # a seed


def measures_of(automaton):
    emits = sorted({name for arc in automaton.arcs for name, _ in arc.emits})
    fixed = "FIRST(id) AS m_first, LAST(id) AS m_last, MATCH_FROM() AS m_from, MATCH_TO() AS m_to, count(*) AS m_count"
    return emits, ", ".join([fixed, *(f"{name} AS m_{name}" for name in [*automaton.registers, *emits])])


def wanted(automaton, rows):
    """The oracle's matches as rows of :func:`measures_of`, in order."""
    out = []
    emits, _ = measures_of(automaton)
    for start, end, registers, emitted, begins, ends, labels in oracle.matches(automaton, rows):
        row = {"m_first": start, "m_last": end, "m_from": begins, "m_to": ends, "m_count": len(labels)}
        row |= {f"m_{name}": x for name, x in zip(automaton.registers, registers)}
        out.append(row | {f"m_{name}": dict(emitted).get(name) for name in emits})
    return out


def _compare(automaton, partitions, chunk_rows):
    expected, overflow = {}, []
    for p, rows in partitions.items():
        automaton.spent[0] = 0
        try:
            expected[p] = wanted(automaton, rows)
        except oracle.OverflowInt:
            overflow.append(p)
        except oracle.TooMany:
            continue
    _, measures = measures_of(automaton)
    text = oracle.clause(automaton, measures)
    for p in overflow[:1]:
        with pytest.raises(MatchRuntimeError):
            run(text, {p: partitions[p]})
    return same_rows(text, partitions, expected, chunk_rows)


def changes_told(automaton, some, punctuations=False):
    """Changes of the oracle as rows of the engine's output."""
    out = []
    emits, _ = measures_of(automaton)
    for number, (change, cause, match, _) in enumerate(some, 1):
        if change == "punctuate":
            names = ["first", "last", "from", "to", "count", *automaton.registers, *emits]
            out.append({"m_change": change, "m_no": number, "m_by": cause, "m_punctuation": match} | dict.fromkeys((f"m_{name}" for name in names), None))
            continue
        start, end, registers, emitted, begins, ends, labels = match
        row = {"m_change": change, "m_no": number, "m_by": cause} | ({"m_punctuation": None} if punctuations else {}) | {"m_first": start[0], "m_last": end[0], "m_from": begins, "m_to": ends, "m_count": len(labels)}
        row |= {f"m_{name}": x for name, x in zip(automaton.registers, registers)}
        out.append(row | {f"m_{name}": dict(emitted).get(name) for name in emits})
    return out


def same_rows(text, partitions, expected, chunk_rows=None, without=None):
    """Compares the output of the partitions of which it is known, less the column `without`; (how many these are, how many rows
    they have)."""
    got = run(text, {p: partitions[p] for p in expected}, chunk_rows) if expected else {}
    for p, rows in expected.items():
        assert [{k: v for k, v in row.items() if k != without} for row in got.get(p, [])] == rows, f"{text}\nrows {partitions[p]}"
    return len(expected), sum(map(len, expected.values()))


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_the_engine_agrees_with_definition_2(seed):
    rng = random.Random(7000 + seed)
    compared = matched = 0
    for i in range(AUTOMATA):
        automaton = oracle.random_automaton(rng)
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 8)) for p in range(PARTITIONS)}
        pairs, matches = _compare(automaton, partitions, (None, 1, 3)[i % 3])
        compared, matched = compared + pairs, matched + matches
    assert compared >= 0.9 * AUTOMATA * PARTITIONS
    assert matched >= compared


TYPES = ("INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,0)", "DECIMAL(38,0)")


def with_types(rng, automaton, text):
    """The clause with registers of another type, which hold the same whole numbers."""
    chosen = rng.choice(TYPES)
    for name in automaton.registers:
        text = text.replace(f"REGISTER {name} INT", f"REGISTER {name} {chosen}")
    return text


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_lives_without_end_loops_on_empty_and_types_of_registers(seed):
    rng = random.Random(7500 + seed)
    compared = matched = 0
    for i in range(AUTOMATA // 3):
        automaton, expected = oracle.with_more(rng, oracle.random_automaton(rng)), {}
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 8)) for p in range(PARTITIONS // 2)}
        for p, rows in partitions.items():
            automaton.spent[0] = 0
            try:
                expected[p] = wanted(automaton, rows)
            except (oracle.OverflowInt, oracle.TooMany):
                continue
        pairs, matches = same_rows(with_types(rng, automaton, oracle.clause(automaton, measures_of(automaton)[1])), partitions, expected, (None, 1, 3)[i % 3])
        compared, matched = compared + pairs, matched + matches
    assert matched > compared > AUTOMATA


@pytest.mark.parametrize("room", [None, 1])
@pytest.mark.parametrize("seed", first(range(8), wider=2))
def test_classifier_names_the_arcs_of_the_first_computation(seed, room, monkeypatch):
    if room is not None:
        monkeypatch.setattr(register_arrays, "RECORDS", room)
    rng = random.Random(7100 + seed)
    rows_told = 0
    for i in range(AUTOMATA // 2):
        automaton = oracle.random_automaton(rng)
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 7)) for p in range(PARTITIONS)}
        text = oracle.clause(automaton, "MATCH_NUMBER() AS m_no, CLASSIFIER() AS m_label, count(*) AS m_count", "ALL ROWS PER MATCH")
        expected = {}
        for p, rows in partitions.items():
            automaton.spent[0] = 0
            try:
                found = oracle.matches(automaton, rows)
            except (oracle.OverflowInt, oracle.TooMany):
                continue
            expected[p] = [{"m_no": number, "m_label": label, "m_count": at} for number, match in enumerate(found, 1) for at, label in enumerate(match[-1], 1)]
        rows_told += same_rows(text, partitions, expected, (None, 2)[i % 2], "id")[1]
    assert rows_told > 50


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_rooms_that_are_too_small_change_nothing(seed, monkeypatch):
    monkeypatch.setattr(register_arrays, "RECORDS", 1)
    monkeypatch.setattr(register_arrays, "MATCHES", 1)
    rng = random.Random(7200 + seed)
    matched = 0
    for i in range(AUTOMATA // 3):
        automaton = oracle.random_automaton(rng)
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 8)) for p in range(PARTITIONS)}
        matched += _compare(automaton, partitions, (None, 2)[i % 2])[1]
    assert matched > 30


def test_there_is_room_for_the_ways_of_one_row():
    """Of the ways before the last row fewer than half of the room are in use, and the row has more than the other half."""
    text = '''PARTITION BY p ORDER BY id MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH
      AUTOMATON (REGISTER n INT = 0  STATE q0 START, q2 FINAL  ARC a FROM q0 TO q1 WHEN v = 0  ARC x FROM q1 TO q1 WHEN v = 1 SET n = 3 * n
        ARC y FROM q1 TO q1 WHEN v = 1 SET n = 3 * n + 1  ARC z FROM q1 TO q1 WHEN v = 1 SET n = 3 * n + 2  ARC e FROM q1 TO q2 WHEN v = 2 AND n = 5)'''
    rows = [{"id": i, "v": v, "w": 0, "s": None} for i, v in enumerate([0, 1, 1, 1, 1, 1, 1, 2])]
    assert [row["c"] for row in run(text, {1: rows})[1]] == ["a", "x", "x", "x", "x", "y", "z", "e"]


@pytest.mark.parametrize("seed", first(range(16), wider=2))
def test_partitions_may_come_little_by_little(seed):
    rng = random.Random(7300 + seed)
    told = 0
    for _ in range(AUTOMATA // 3):
        automaton = oracle.random_automaton(rng)
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 9)) for p in range(PARTITIONS)}
        text = oracle.clause(automaton, f"MATCH_NUMBER() AS m_no, {measures_of(automaton)[1]}")
        try:
            at_once = run(text, partitions)
        except MatchRuntimeError:
            continue
        assert run(text, partitions, cuts=rng) == at_once, text
        told += sum(map(len, at_once.values()))
    assert told > 30


@pytest.mark.parametrize("seed", first(range(32), wider=2))
def test_linear_automata_are_patterns(seed):
    """Rows of every match of a sequence of variables under STRICT CONTIGUITY ALL MATCHES, and of the automaton that takes the same
    rows."""
    rng = random.Random(7400 + seed)
    matched = 0
    for _ in range(AUTOMATA):
        parts = [(f"V{i}", rng.choice(("", "", "*", "+")), oracle.random_condition(rng, ["v", "w"])) for i in range(rng.randrange(1, 4))]
        arcs = []
        for i, (name, quantifier, condition) in enumerate(parts):
            here, there = f"q{i}", f"q{i + 1}"
            arcs.append(oracle.Arc(here, there, name, when=condition))
            if quantifier:
                arcs.append(oracle.Arc(there, there, when=condition))
            if quantifier == "*":
                arcs.append(oracle.Arc(here, there, on=oracle.EMPTY))
        window = rng.choice((2, 4, 9))
        automaton = oracle.Automaton({}, "q0", frozenset([f"q{len(parts)}"]), tuple(arcs), window)
        partitions = {p: oracle.random_rows(rng, rng.randrange(1, 9)) for p in range(PARTITIONS)}
        measures = "FIRST(id) AS a, LAST(id) AS b, count(*) AS n"
        pattern = " ".join(name + quantifier for name, quantifier, _ in parts)
        defines = ", ".join(f"{name} AS {oracle.to_sql(condition)}" for name, _, condition in parts)
        text = f"PARTITION BY p ORDER BY id MEASURES {measures} EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN ({pattern}) WINDOW {window} DEFINE {defines}"
        by_pattern, by_automaton = run(text, partitions), run(oracle.clause(automaton, measures), partitions)
        for p in partitions:
            rows = [{tuple(row.values()) for row in found.get(p, [])} for found in (by_pattern, by_automaton)]
            assert rows[0] == rows[1], f"{text}\n{oracle.clause(automaton, measures)}\nrows {partitions[p]}"
            matched += len(rows[0])
    assert matched > 0.7 * AUTOMATA * PARTITIONS
