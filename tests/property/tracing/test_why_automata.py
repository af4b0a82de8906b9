"""The computations of sparkcep.why for an AUTOMATON against the oracle's, over random automata."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.settings import Settings
from sparkcep.tracing.answers.differs import UNTRUE
from sparkcep.tracing.answers.explain import Asked
from sparkcep.tracing.kinds import computations
from sparkcep.tracing.kinds.arcs import question_of_arcs
from sparkcep.tracing.kinds.computations import Computations
from sparkcep.tracing.kinds.kinds import explain_rows
from tests.oracle import automaton as oracle
from tests.property.tracing.why_cases import frozen
from tests.selection import first
from tests.support.why_kinds import compute

CASES = 30  # a seed
LOGIC = ("and", "or", "not")


def taken_apart(e: tuple) -> list[tuple]:
    """The comparisons of an oracle's condition, in the order of its text."""
    return [part for side in e[1:] for part in taken_apart(side)] if e[0] in LOGIC else [e]


def alive(automaton: oracle.Automaton, rows: list[dict]) -> bool:
    """Whether the lifetimes of rows that follow one another overlap."""
    ends = [end for end in (oracle._end(automaton, row) for row in rows) if end is not None]
    return not ends or min(ends) > rows[-1]["id"]


def compared(automaton: oracle.Automaton, rows: list[dict], counts: Counter) -> None:
    """Compares the computations of all stretches of rows, and the comparisons that arcs see after each."""
    asked = question_of_arcs(parse_clause(oracle.clause(automaton, "1 AS one")), Settings(prefilter=False))
    here = frozen(asked, rows)
    found = Computations.of(asked, here.table)
    assert found.right
    plan = asked.plan.automaton
    states = {name: i for i, name in enumerate(plan.states)}
    for begin in range(len(rows)):
        wanted = {}
        for end in range(begin, len(rows)):
            some = rows[begin : end + 1]
            if alive(automaton, some):
                for one in oracle._computations(automaton, some):
                    wanted.setdefault((end, states[one.state], one.registers), one)
        got = {(one.last, one.state, one.registers) for one in found.from_row.get(begin, ())}
        assert got == set(wanted), (begin, got ^ set(wanted))
        counts["computations"] += len(got)
        for end, state, registers in got:
            if end + 1 < len(rows):
                looks(automaton, rows, asked, here, found, (begin, end, state, registers), counts)


def looks(automaton, rows, asked, here, found, at, counts: Counter) -> None:
    """Compares the comparisons of each arc at the row after a computation."""
    begin, end, state, registers = at
    names = dict(zip(automaton.registers, registers))
    for number, arc in enumerate(automaton.arcs):
        if arc.when is None or asked.plan.automaton.arcs[number].source != state or arc.on != oracle.ROW:
            continue
        row = end + 1
        look = found.look(begin, row, state, registers, number)
        assert (look is not None) == alive(automaton, rows[begin : row + 1])
        if look is None:
            counts["outside"] += 1
            continue
        own = [comparison for comparison in asked.comparisons if comparison.variable == number]
        atoms = taken_apart(arc.when)
        assert len(own) == len(atoms)
        for comparison, atom in zip(own, atoms):
            value = asked.values[comparison.truth]
            truth = here.column(value.column)[row] if value.column else look[value.probe]
            assert truth == oracle.value(atom, {**rows[row], **names}), (at, number, atom)
            counts["comparisons"] += 1


@pytest.mark.parametrize("seed", first(range(20), 0, wider=1))
def test_computations_equal_those_of_the_oracle(seed):
    rng, counts = random.Random(seed), Counter()
    while counts["cases"] < CASES:
        automaton, rows = oracle.random_automaton(rng), oracle.random_rows(rng, rng.choice([3, 5, 7]))
        if len(automaton.registers) < 2 and rng.random() < 0.7:
            continue
        automaton = replace(automaton, budget=20_000)
        try:
            compared(automaton, rows, counts)
            answers(automaton, rows, counts)
        except (oracle.TooMany, oracle.OverflowInt, MatchRuntimeError):
            continue
        except AssertionError as error:
            raise AssertionError(f"{oracle.clause(automaton, '1 AS one')}\n{rows}\n{error}") from error
        counts["cases"] += 1
    assert min(counts[what] for what in ("computations", "comparisons", "outside", "in a match", "in no match")) > CASES // 6, counts


def answers(automaton: oracle.Automaton, rows: list[dict], counts: Counter) -> None:
    """Compares the first line of the answer for each row with the oracle's matches."""
    asked = question_of_arcs(parse_clause(oracle.clause(automaton, "1 AS one")), Settings(prefilter=False))
    here = frozen(asked, rows)
    places = {id(row): i for i, row in enumerate(rows)}  # times may be equal
    matches = [found[:2] for found in oracle.matches(automaton, rows, name=lambda row: places[id(row)])]
    for row in range(len(rows)):
        why = explain_rows(here, Asked((row,)), compute)
        inside = any(begin <= row <= end for begin, end in matches)
        counts["in a match" if inside else "in no match"] += 1
        assert why.verified and why.verdict.partition(" of p")[2].partition("is in ")[2].startswith("match" if inside else "no match"), why.verdict


def test_computations_that_differ_explain_nothing(monkeypatch):
    """If the engine's matches are not the computations in FINAL states, nothing is explained."""
    text = "ORDER BY id MEASURES 1 AS one AUTOMATON (STATE q2 FINAL ARC FROM q0 TO q1 WHEN v = 1 ARC FROM q1 TO q2 WHEN v = 2)"
    asked = question_of_arcs(parse_clause(text), Settings(prefilter=False))
    rows = frozen(asked, [{"id": i, "v": v, "w": 0, "s": "a"} for i, v in enumerate([1, 2, 1])])
    assert explain_rows(rows, Asked((0,)), compute).verified
    watched = computations._watched
    monkeypatch.setattr(computations, "_watched", lambda *args: replace(watched(*args), automaton=watched(*args).automaton._replace(final=(0, 1))))
    why = explain_rows(rows, Asked((0,)), compute)
    assert not why.verified and why.lines == (UNTRUE,) and json.loads(why.report)["rows"]


@pytest.mark.parametrize(
    "clause, message",
    [
        ("AUTOMATON (ARC FROM q0 TO q1 WHEN v = 1 STATE q1 FINAL ARCS FROM rules)", "Leave ARCS FROM out"),
        ("AUTOMATON (ARC FROM q0 TO q1 WHEN v = 1 STATE q1 FINAL) PREF MAX (count(*)) TOP 1", "Leave PREF out"),
        ("AUTOMATON (ARC FROM q0 TO q1 WHEN v = 1 STATE q1 FINAL) CHANGES IN op", "Leave CHANGES IN out"),
    ],
)
def test_refusals(clause, message):
    with pytest.raises(ClauseError) as caught:
        question_of_arcs(parse_clause(f"ORDER BY id MEASURES 1 AS one {clause}"))
    assert caught.value.error_class == "SPARKCEP.WHY" and message in caught.value.message


def test_comparisons_that_fail_are_left_out():
    """A comparison that AND guards may fail by itself. The others have their values."""
    text = "ORDER BY id MEASURES 1 AS one AUTOMATON (REGISTER n INT = 0 STATE q1 FINAL ARC FROM q0 TO q1 WHEN n <> 0 AND v / n > 1 ARC other FROM q0 TO q1 WHEN v > n + 3)"
    asked = question_of_arcs(parse_clause(text), Settings(prefilter=False))
    rows = frozen(asked, [{"id": i, "v": v, "w": 0, "s": "a"} for i, v in enumerate([1, 2])])
    lines = str(explain_rows(rows, Asked((0,)), compute)).split("\n")
    assert "    arc 1 to q1  not computed: a part of WHEN fails for some row, or no row is read yet" in lines
    assert "    other to q1  v > n + 3  1 > 3  false" in lines


def test_too_many_computations(monkeypatch):
    monkeypatch.setattr(computations, "LIMITS", {"max_matches": 3})
    text = "ORDER BY id MEASURES 1 AS one AUTOMATON (STATE q1 FINAL ARC FROM q0 TO q1 ARC FROM q1 TO q1)"
    asked = question_of_arcs(parse_clause(text), Settings(prefilter=False))
    why = explain_rows(frozen(asked, [{"id": i, "v": i, "w": 0, "s": "a"} for i in range(9)]), Asked((0,)), compute)
    assert [reason.reason for reason in why.reasons] == ["EFFORT"] and why.verdict.startswith("The answer lists all matches")
