"""Planted faults in the answers of sparkcep.why: each changes a worked example, a hint, or what the two searches agree on."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import pytest

from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers import causes, change, explain, hints, overall, values, writer
from sparkcep.tracing.conditions import collector, comparisons, question
from sparkcep.tracing.rows import frozen, machine, verify
from sparkcep.tracing.search import lost, near, windows
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import Trace
from tests.oracle import cases, expr
from tests.property.tracing.test_why_traces import FAULTS as OF_TRACES
from tests.property.tracing.why_cases import WINDOWS, Case
from tests.selection import first
from tests.support.planted_faults import plant
from tests.unit.tracing import test_why

_EXPLAINER, _OVERALL, _HINTS = explain._Explainer, overall._Overall, hints.Hints
FAULTS = [
    (verify, "compared", "differences(trace.matches, ", "differences(trace.matches[:0], "),
    (_EXPLAINER, "at", "row in match.rows", "row in match.rows[1:]"),
    (_EXPLAINER, "not_in", "if row < match.start", "if row > match.start"),
    (_EXPLAINER, "expected", "search.start > row", "search.start >= row"),
    (_EXPLAINER, "outside", "row - first} < ", "first - row} < "),
    (_EXPLAINER, "_decision", "REFUSED and other.preferred", "REFUSED and not other.preferred"),
    (_EXPLAINER, "condition", "not is_conjunction(logic)", "is_conjunction(logic)"),
    (_EXPLAINER, "condition", "len(changes) == 1", "len(changes) == 2"),
    (_EXPLAINER, "ties", "len(rows) > 1", "len(rows) < 2"),
    (_EXPLAINER, "_lost_to", "self.trace.resumed(self.trace.matches[number - 1]) + 1", "self.trace.resumed(self.trace.matches[number - 1])"),
    (lost, "lost", "row in match.rows and variable", "row in match.rows[:1] and variable"),
    (windows.Windows, "refused", "row < self.ends[window][first]", "row <= self.ends[window][first]"),
    (change, "alone", "len(changes) == 1", "len(changes) >= 1"),
    (change, "one_change", "found is not None", "found is None"),
    (causes, "_at", "if row < 0", "if row <= 0"),
    (causes, "_cause", "row + at.physical", "row - at.physical"),
    (verify, "differences", "ours == list(engine)", "ours != list(engine)"),
    (verify, "with_changes", "changed, number)", "{}, number)"),
    (frozen.FrozenRows, "truth", "[row]", "[row - 1]"),
    (machine.Machine, "_map", "prior, node.start", "prior, node.row"),
    (values, "truth", "value is None", "value is False"),
    (values, "labels", "count > 3", "count > 1"),
    (comparisons, "is_conjunction", "all(map", "any(map"),
    (collector, "parts_of", "parts_of(part)", "[]"),
    (near, "_ways", '("missing", way.row - 1, option.variable)', '("missing", way.row, option.variable)'),
    (near, "_ways", "elif way.error is None", "elif way.error is not None"),
    (_OVERALL, "culprits", "-one[0], -one[1]", "one[0], one[1]"),
    (_OVERALL, "reached", "places >> place & 1", "places >> place"),
    (overall, "note_of", "not true", "true"),
    (_OVERALL, "endings", "None in wholes", "None not in wholes"),
    (_HINTS, "only_case", "counts[0]", "not counts[0]"),
    (_HINTS, "window_units", "usual < size", "usual > size"),
    (_HINTS, "skipping", "return _count", "return not _count"),
    (_HINTS, "_numbers", "share < _PART", "share > _PART"),
    (_HINTS, "keys", "totals.single >= _PART * totals.partitions", "totals.single > totals.partitions"),
]  # fmt: skip


IMPORTERS = (explain, writer, overall, hints, change, causes, frozen, question, near, test_why)  # they may have a function by its name
ENDLESS = "not match.variables or "  # without it the search finds an empty match at one row again and again


def checks() -> None:
    """Everything that tests/unit/tracing/test_why.py knows, without the tests that plant faults themselves."""
    for example in test_why.EXAMPLES:
        test_why.test_examples_to_the_letter(example)
    for _, *case in test_why.HINTS:
        test_why.test_hints(*case)
    test_why.test_redaction_leaves_no_value()
    test_why.test_hints_of_counts()
    test_why.test_forms()
    test_why.test_reasons_are_of_the_closed_list()
    test_why.test_ties_of_shown_rows()
    test_why.test_further_answers()


@pytest.mark.parametrize("owner, name, right, wrong", first([pytest.param(*fault) for fault in FAULTS], 3, wider=3))
def test_faults_are_found(owner, name, right, wrong, monkeypatch):
    """The worked examples fail for an answer with a planted fault."""
    plant(monkeypatch, owner, name, right, wrong, IMPORTERS)
    with pytest.raises((AssertionError, IndexError, KeyError, ValueError, TypeError, StopIteration)):
        checks()


def random_rows(seed: int):
    """Rows of random clauses without AFTER MATCH SKIP TO a variable, which may fail."""
    rng = random.Random(seed)
    while True:
        case = Case(cases.random_clause(rng), expr.random_rows(rng, 6), rng.choice(WINDOWS), Counter())
        if case.clause.skip[0] in ("past last row", "to next row"):
            yield case.frozen


@pytest.mark.parametrize("owner, name, right, wrong", first([pytest.param(*fault) for fault in OF_TRACES if fault[2] != ENDLESS], 2, wider=2))
def test_a_trace_with_a_fault_explains_nothing(owner, name, right, wrong, monkeypatch):
    """If a planted fault changes the matches of a trace, the answers to both questions are rule 27's."""
    found = [(rows, rows.matches()) for rows in islice(random_rows(5), 25)]
    plant(monkeypatch, owner, name, right, wrong, IMPORTERS)
    monkeypatch.setattr(Run, "with_", short_runs(Run.with_))
    for rows, matches in found:
        try:
            trace = Trace(rows.pattern(), rows, max_steps=2_000)
            if verify.traced(trace) == matches or trace.given_up:
                continue
            answers = explain.explain(rows, explain.Asked((0,)), max_steps=2_000), overall.overall([rows], hints.Totals(6, 1), DEFAULT, words={}, max_steps=2_000)
        except (AssertionError, RecursionError, IndexError, KeyError, StopIteration):
            continue  # the fault breaks the search itself
        for why in answers:
            assert not why.verified and str(why).startswith("The trace differs from the engine.") and not (why.reasons or why.next or why.culprits or why.near)


def test_faults_make_traces_lie(monkeypatch):
    """The test above compares something: this fault changes the matches of many of its clauses."""
    found = [(rows, rows.matches()) for rows in islice(random_rows(5), 25)]
    plant(monkeypatch, Trace, "resumed", "return match.end", "return match.start + 1")
    assert sum(verify.traced(Trace(rows.pattern(), rows)) != matches for rows, matches in found) > 3


def short_runs(with_):
    def checked(self, *row: object):
        assert self.length <= 50
        return with_(self, *row)

    return checked
