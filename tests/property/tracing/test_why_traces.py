"""Traces of sparkcep.why against brute force over random clauses, and planted faults that these checks must find."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import product

import pytest

from sparkcep.errors import ClauseError
from sparkcep.tracing.conditions import comparisons
from sparkcep.tracing.conditions.comparisons import combined, smallest_sets
from sparkcep.tracing.rows.verify import compared
from sparkcep.tracing.search import program, runs, trace
from sparkcep.tracing.search.near import nearest_miss
from sparkcep.tracing.search.runs import Run
from sparkcep.tracing.search.trace import Effort, Trace
from tests.oracle import cases, expr, pattern
from tests.property.tracing.why_cases import WINDOWS, Case, smallest_by_trying
from tests.selection import first
from tests.support.planted_faults import plant
from tests.support.why_examples import frozen, question

SEEDS = first([29, 41, *range(120)], 1, wider=3)
CLAUSES = 30  # per seed


def checked(seed: int, wanted: int) -> Counter:
    """Checks that many random clauses."""
    rng, counts = random.Random(seed), Counter()
    while counts["cases"] + counts["skip targets"] < wanted:
        clause = cases.random_clause(rng)
        rows = expr.random_rows(rng, rng.choice([1, 3, 5, 7, 9]))
        case = Case(clause, rows, rng.choice(WINDOWS), counts)
        try:
            if not case.check():
                counts["too large"] += 1
        except Effort:
            counts["too large"] += 1
        except AssertionError as error:
            raise AssertionError(f"{case.text}\n{rows}\n{error}") from error
    return counts


@pytest.mark.parametrize("seed", SEEDS)
def test_traces_equal_brute_force(seed):
    counts = checked(seed, CLAUSES)
    for what in ("matches", "start rows", "farthest runs", "options", "conditions", "changes", "decisions", "other options", "rows in no match", "sides"):
        assert counts[what] > CLAUSES // 10, counts


def random_logic(rng: random.Random, depth: int, truths: list) -> tuple:
    roll = rng.random()
    if depth == 0 or roll < 0.25:
        truths.append(rng.choice([True, False, None]))
        return ("comparison", len(truths) - 1)
    if roll < 0.4:
        return ("not", random_logic(rng, depth - 1, truths))
    if roll < 0.5:
        return ("choice", *(random_logic(rng, depth - 1, truths) for _ in range(2)), rng.choice([("constant", None), random_logic(rng, depth - 1, truths)]))
    return (rng.choice(["and", "or"]), *(random_logic(rng, depth - 1, truths) for _ in range(rng.choice([2, 2, 3]))))


@pytest.mark.parametrize("seed", first(range(20), 1, wider=2))
def test_smallest_sets_equal_trying_all(seed):
    rng, tried = random.Random(seed), 0
    while tried < 200:
        truths: list = []
        logic = random_logic(rng, 3, truths)
        if len(truths) > 7 or combined(logic, truths.__getitem__) is True:
            continue
        # a constant without its comparison leaves gaps in the numbers, which change nothing
        assert set(smallest_sets(logic, truths.__getitem__)) == smallest_by_trying(logic, truths), (logic, truths)
        tried += 1


# -- faults -------------------------------------------------------------------------------------------------------------

FAULTS = [
    (program.Program, "_next", "if here.greedy else", "if not here.greedy else"),
    (program.Program, "_next", "if done >= here.low and began_here", "if False"),
    (program.Program, "_next", "if done < here.low", "if done <= here.low"),
    (program.Program, "_next", "done >= here.high", "done > here.high"),
    (program.Program, "_reached", '(first if here.kind == "start" else last)', '(last if here.kind == "start" else first)'),
    (program.Program, "_reached", "reversed(", "list("),
    (program.Program, "needed", "- slots[around.slot][0] - 1", "- 1"),
    (program.Program, "_count_ahead", "min(map", "max(map"),
    (program.Program, "_measure", "min(depth, before + 1)", "before + 1"),
    (program, "least", "min(parts)", "sum(parts)"),
    (runs, "_keep", "(-other.needed, other.count) >= ", "(-other.needed, other.count) > "),
    (runs, "_keep", "(-other.needed, other.count) >= (-end.needed, end.count)", "(other.needed, other.count) >= (end.needed, end.count)"),
    (runs, "_children", "for state in group:", "for state in group[:1]:"),
    (trace, "farthest", "and not any(", "and any("),
    (trace.Search, "ways", "after in self._failed", "after not in self._failed"),
    (trace.Search, "_refused", "row >= self.rows.count", "row >= self.rows.count - 1"),
    (trace.Search, "_refused", "self.outside(option, row)", "self.outside(option, row + 1)"),
    (trace.Search, "holds", "is True", "is not False"),
    (trace.Search, "states", "nodes = list(found)", "nodes = list(found)[:1]"),
    (trace.Search, "_other", "if variable < 0", "if variable < 1"),
    (trace.Search, "_other", "is not None for state", "is None for state"),
    (trace.Trace, "resumed", "not match.variables or ", ""),
    (trace.Trace, "resumed", "return match.end", "return match.start + 1"),
    (trace.Trace, "_changed_to", "(comparison, row)", "(comparison, row - 1)"),
    (comparisons, "_sets", '(kind == "and") == (True in wanted)', 'kind == "and"'),
    (comparisons, "_sets", "_TURNED[wanted]", "wanted"),
    (comparisons, "combined", "decides = kind == \"or\"", "decides = True"),
    (comparisons, "_minimal", "other < changes", "other > changes"),
]  # fmt: skip


@pytest.mark.parametrize("owner, name, right, wrong", first([pytest.param(*fault) for fault in FAULTS], 1, wider=1))
def test_faults_are_found(owner, name, right, wrong, monkeypatch):
    """The checks fail for a trace with a planted fault."""
    plant(monkeypatch, owner, name, right, wrong)
    with pytest.raises((AssertionError, RecursionError, IndexError, KeyError, StopIteration, trace.SkipTarget, MemoryError, Effort)):
        for seed in (3, 5, 7):
            checked_or_endless(seed)
        test_smallest_sets_equal_trying_all(0)


def checked_or_endless(seed: int) -> None:
    """Like :func:`checked`, with few steps for each search, since a fault may make it endless."""
    steps, taken = trace.Search.step, Run.with_

    def step(self, count: int = 1) -> None:
        steps(self, count)
        if self.steps > 10_000:
            raise AssertionError("endless")

    def with_(self, variable: int, row: int | None = None, crossed: tuple[int, ...] = ()) -> Run:
        if self.length > 100:
            raise AssertionError("endless")
        return taken(self, variable, row, crossed)

    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(trace.Search, "step", step)
        patch.setattr(Run, "with_", with_)
        checked(seed, 120)
    finally:
        patch.undo()


# -- windows of groups ----------------------------------------------------------------------------------------------------


def random_grouped(rng: random.Random, depth: int) -> str:
    """A random pattern whose groups may have windows."""
    if depth == 0:
        return rng.choice("ABC")
    inner = [random_grouped(rng, depth - 1) for _ in range(rng.choice([1, 2, 2]))]
    roll = rng.random()
    if roll < 0.4:
        return f"(({' '.join(inner)}) WITHIN {rng.choice(['2', '3', '5', '2 ROWS', '3 ROWS'])})"
    if roll < 0.6:
        return f"({' | '.join(inner)})"
    return f"({' '.join(inner)}){rng.choice(['', '', '?', '*', '+', '{2}', '{1,3}', '+?'])}"


@pytest.mark.parametrize("seed", first(range(12), 1, wider=2))
def test_traces_of_groups_with_windows_equal_the_engine(seed):
    rng, matches = random.Random(seed), 0
    for _ in range(60):
        window = rng.choice(["", "", "WINDOW 4 ", "WINDOW 3 ROWS "])
        text = f"ORDER BY t {window}PATTERN ({random_grouped(rng, 3)}) DEFINE A AS v < 2, B AS v > 0, C AS v <> 1 AND v < PREV(v)"
        try:
            asked = question(text)
        except ClauseError as error:
            assert error.error_class != "SPARKCEP.WHY", text
            continue
        times = sorted(rng.sample(range(14), 8))
        rows = frozen(asked, ["t", "v"], [(time, rng.randrange(3)) for time in times], "t")
        trace = Trace(rows.pattern(), rows)
        assert compared(trace, rows.matches()) == [], (text, times)
        matches += len(trace.matches)
        for search in trace.searches.values():
            if search.match is None and (ended := search.farthest()) is not None:
                assert all(reason for _, reason in search.next(ended)), text
    assert matches > 30


# -- nearest misses -------------------------------------------------------------------------------------------------------


def regular(p: tuple) -> str:
    """A pattern of the oracle as a regular expression over the names of variables."""
    if p[0] == "var":
        return p[1]
    if p[0] == "cat":
        return "".join(f"(?:{regular(part)})" for part in p[1])
    if p[0] == "alt":
        return "|".join(f"(?:{regular(part)})" for part in p[1])
    return f"(?:{regular(p[1])}){{{p[2]},{'' if p[3] is None else p[3]}}}" if p[0] == "rep" else ""


def has_one_error(p: tuple, names: list[str], rows: list[tuple]) -> bool:
    """Whether some labels of the first rows match with one error, by trying all labels."""
    expression = re.compile(regular(p))
    for end in range(1, len(rows) + 1):
        for length in range(end - 1, end + 2):
            for labels in product(names, repeat=length):
                if not expression.fullmatch("".join(labels)):
                    continue
                good = [[bool(rows[row][1 + "ABC".index(label)]) for row in range(end)] for label in labels]
                if length == end and sum(not good[i][i] for i in range(end)) <= 1:
                    return True
                if length == end + 1 and any(all(good[i + (i >= j)][i] for i in range(end)) for j in range(length)):
                    return True
                if 1 <= length == end - 1 and any(all(good[i][i + (i >= j)] for i in range(length)) for j in range(1, end - 1)):
                    return True
    return False


@pytest.mark.parametrize("seed", first(range(10), 1, wider=2))
def test_nearest_misses_equal_trying_all_labels(seed):
    rng, tried, found = random.Random(seed), 0, 0
    while tried < 60:
        names = ["A", "B", "C"][: rng.choice([1, 2, 2, 3])]
        p = pattern.random_pattern(rng, names, rng.choice([1, 2, 2, 3]), permute=False, exclude=False, anchors=False)
        used = pattern.variables(p)
        if not used:
            continue
        defines = ", ".join(f"{name} AS {name.lower()} = 1" for name in used)
        values = [(i, *(int(rng.random() < 0.45) for _ in "ABC")) for i in range(rng.choice([1, 2, 3, 4]))]
        rows = frozen(question(f"ORDER BY t PATTERN ({pattern.to_text(p, rng)}) DEFINE {defines}"), ["t", "a", "b", "c"], values, "t")
        search = Trace(rows.pattern(), rows, search=False).search(0, 1)
        if search.match is None:
            miss, _ = nearest_miss(search)
            assert (miss is not None) == has_one_error(p, list(used), values), (p, values, miss)
            tried, found = tried + 1, found + (miss is not None)
    assert found > 5
