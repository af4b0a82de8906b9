"""Checks a trace of sparkcep.why under an event selection against brute force: matches, farthest runs and decisions.

    python -m tests.property.tracing.why_selection --cases 10000 --seed 1

Brute force is the oracle's enumeration (tests/oracle/selection.py), which shares no code with the trace. Each call of its
:meth:`runs` is a derivation of rows that were taken so far, so all of them together are all runs.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from dataclasses import replace

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError, MatchRuntimeError
from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers.explain import IN_FULL, Asked, explain
from sparkcep.tracing.conditions.question import question_of
from sparkcep.tracing.rows.sides import begins_outside, best_combined, combines, sides_of
from sparkcep.tracing.rows.verify import compared
from sparkcep.tracing.search.program import Program
from sparkcep.tracing.search.trace import MAX_STEPS, Effort, Search, SkipTarget, Trace
from tests.oracle import pattern, selection
from tests.property.tracing.why_cases import depths, frozen, least

BUDGET = 20_000
BATCH = 100  # clauses of one seed
PLAIN, NEGATED, SIDED = ("plain", "plain", "nested"), ("negation", "group"), ("conjunction", "sided group")  # shapes of selection.random_query
SETTINGS = replace(DEFAULT, prefilter=False, slices=False)  # as sparkcep.why has them


class Derivations(selection._Search):
    """All derivations of a start row: for each, the rows taken with their variables, and the fewest rows to a match."""

    def __init__(self, query: selection.Query, rows: list[dict]) -> None:
        super().__init__(query, rows)
        self.derivations: dict[tuple, int] = {}

    def runs(self, left, path, start, anywhere, number):
        pairs = tuple((row, variable) for _, row, variable, _ in selection._taken(path))
        need = sum(needed(form) for form in selection._forms(left))
        self.derivations[pairs] = min(need, self.derivations.get(pairs, need))
        yield from super().runs(left, path, start, anywhere, number)


def needed(form: tuple) -> int:
    """The fewest rows of a part that is left."""
    if form[0] == "loop":
        return max(form[1][2] - form[2], 0) * least(form[1][1])
    return 0 if form[0] in ("close", "unexclude", "stop", "neg") else least(form)


class SelectionCase:
    """A random query over rows, with its trace. ``counts`` says how much was compared."""

    def __init__(self, query: selection.Query, rows: list[dict], counts: Counter) -> None:
        self.query, self.rows, self.counts = query, rows, counts
        self.text = query.to_sql()
        self.question = question_of(parse_clause(self.text), SETTINGS)
        self.frozen = frozen(self.question, rows)
        self.pattern = self.frozen.pattern()
        self.unique = not pattern.contains(query.pattern, ("start", "end", "neg")) and len(self.pattern.program.places) == len(set(self.pattern.program.places))

    def pairs(self, rows: tuple[int, ...], variables: tuple[int, ...]) -> tuple:
        return tuple((row, self.question.name(variable)) for row, variable in zip(rows, variables, strict=True))

    def check(self) -> bool:
        """Checks everything. False if brute force would take too long."""
        try:
            wanted = self.query.find(self.rows)
        except selection.Budget:
            return False
        except selection.SkipTargetError:
            try:
                Trace(self.pattern, self.frozen)
            except SkipTarget:
                self.counts["skip targets"] += 1
                return True
            raise AssertionError("AFTER MATCH SKIP cannot resume, and the trace does") from None
        trace = Trace(self.pattern, self.frozen)
        ours, theirs = ([(one.start, pairs) for one, pairs in found] for found in (
            [(match, self.pairs(match.rows, match.variables)) for match in trace.matches], [(match, match.pairs) for match in wanted],
        ))  # fmt: skip
        if self.query.report == selection.ALL:  # the order of ambiguous patterns may differ
            ours, theirs = sorted(ours), sorted(theirs)
        assert ours == theirs, (ours, theirs)
        assert compared(trace, self.frozen.matches()) == []
        self.counts["matches"] += len(wanted)
        self.counts["longer than adjacent"] += sum(match.pairs[-1][0] - match.pairs[0][0] >= len(match.pairs) for match in wanted if match.pairs)
        for search in trace.searches.values():
            self.counts["start rows"] += 1
            try:
                self.check_search(search)
            except selection.Budget:
                continue
        self.check_answers()
        self.check_expected(wanted)
        self.counts["cases"] += 1
        return True

    def check_search(self, search: Search) -> None:
        search_number = None if self.query.report == selection.ALL else search.number
        brute = Derivations(self.query, self.rows)
        ways = [pairs for pairs, _ in brute.matches_at(search.start, search_number)]
        assert (search.match is not None) == bool(ways)
        if search.match is None:
            self.check_farthest(search, brute.derivations)
        elif self.query.report == selection.FIRST:
            assert self.pairs(search.match.rows, search.match.variables) == ways[0]
            self.check_decisions(search, ways, brute, search_number)

    def check_farthest(self, search: Search, derivations: dict[tuple, int]) -> None:
        """The farthest run of a start row without a match, and that no run goes on from it."""
        reached = search.reached()
        ended = search.farthest()
        assert ended is not None and search.reached() == reached
        taken = self.pairs(ended.rows, ended.variables)
        assert taken in derivations
        self.counts["runs"] += 1
        if not self.unique:
            return
        inner = {pairs[:n] for pairs in derivations for n in range(len(pairs))}
        of = {self.question.name(variable): self.pattern.program.depths[place] for place, variable in enumerate(self.pattern.program.places)}
        assert list(depths(self.query.pattern).values()) == self.pattern.program.depths

        def rank(pairs: tuple) -> tuple[int, int, int]:
            return max((of[name] for _, name in pairs), default=0), -derivations[pairs], len(pairs)

        top = max(rank(pairs) for pairs in derivations if pairs not in inner)
        assert taken not in inner and ended.rank == top == rank(taken), (ended, top, taken)
        self.counts["farthest runs"] += 1

    def check_decisions(self, search: Search, ways: list[tuple], brute: Derivations, number: int | None) -> None:
        """Each decision of a match: what else could have come at the row, and what it leads to."""
        mine = ways[0]
        for decision in search.decisions():
            self.counts["decisions"] += 1
            before = tuple(pair for pair in mine if pair[0] < decision.row)
            at_end = decision.variable == -1
            for other in decision.others:
                name = self.question.name(other.variable) if other.variable >= 0 else None
                if name is None:
                    found = "matches" if before in ways else "fails"
                else:
                    leads = [way for way in ways if way[: len(before)] == before and len(way) > len(before) and way[len(before)][1] == name]
                    reached = [pairs for pairs in brute.derivations if pairs[:-1] == before and pairs and pairs[-1][1] == name]
                    if not at_end:
                        leads = [way for way in leads if way[len(before)][0] == decision.row]
                        reached = [pairs for pairs in reached if pairs[-1][0] == decision.row]
                    found = "matches" if leads else "fails" if reached else "refused"
                if other.reason == "NEGATION":  # the oracle judges negations at the end of the match
                    assert found != "matches", (decision, other, found)
                else:
                    assert other.verdict == found, (decision, other, found)
                self.counts["other options"] += 1

    def check_answers(self) -> None:
        """Each row has an answer that the engine confirms."""
        for first in range(0, len(self.rows), IN_FULL):
            rows = range(first, min(first + IN_FULL, len(self.rows)))
            try:
                why = explain(self.frozen, Asked(tuple(rows)))
            except MatchRuntimeError:
                continue
            assert why.verified and why.lines[0].startswith(f"Row {first + 1} "), str(why)
            assert all(any(line.startswith(f"Row {row + 1} ") for line in why.lines) for row in rows), str(why)
            assert all(len(line) < 1_000 for line in why.lines)
            self.counts["answers"] += len(rows)

    def check_expected(self, wanted: list) -> None:
        """The first rows are a variable if a match says so."""
        rows, name = range(min(IN_FULL, len(self.rows))), self.question.plan.variables[self.pattern.program.places[-1]]
        try:
            why = explain(self.frozen, Asked(tuple(rows), expect=name))
        except MatchRuntimeError:
            return
        for row in rows:
            is_it = any((row, name) in match.pairs for match in wanted)
            (line,) = (line for line in why.lines if line.startswith(f"Row {row + 1} "))
            assert line.endswith(f" is {name}.") == is_it and (is_it or f" is not {name}" in line or line.endswith(" is not answered.")), str(why)
            self.counts["is the variable"] += is_it


class SidedCase:
    """A random query with ``&`` over rows: the claims about its sides against the oracle's matches."""

    def __init__(self, query: selection.Query, rows: list[dict], counts: Counter) -> None:
        self.query, self.rows, self.counts = query, rows, counts
        self.question = question_of(parse_clause(query.to_sql()), SETTINGS)
        self.frozen = frozen(self.question, rows)

    def check(self) -> bool:
        """Checks everything. False if brute force would take too long."""
        try:
            wanted = self.query.find(self.rows)
        except selection.Budget:
            return False
        sides = sides_of(self.frozen, MAX_STEPS)
        starts = {match.start for match in wanted}
        plain = self.query.strategy == selection.ANY and not pattern.contains(self.query.pattern, ("neg", "within", "start", "end"))
        for side in sides:
            assert side.differences() == []
            self.counts["sides"] += 1
        for row in range(len(self.rows)):
            why = explain(self.frozen, Asked((row,)))
            inside = [match for match in wanted if any(at == row for at, _ in match.pairs)]
            assert why.verified and ("is in no match" in why.verdict) == (not inside), str(why)
            self.counts["answers"] += 1
            if not sides:
                continue
            stop = min(sides[0].trace.pattern.windows.end(row), len(self.rows))
            last = row + 1 if begins_outside(self.frozen.question.plan.pattern) else stop
            alone = [next((way for way in side.ways(row, stop) if way.start < last), None) is not None or pattern_is_empty(side.trace.pattern.program) for side in sides]
            if row in starts and plain:
                assert all(alone), (row, alone)
                self.counts["starts"] += 1
                self.counts["nested starts"] += self.query.pattern[0] != "and"
            if row not in starts and plain and all(alone) and self.query.skip != ("past last row",):
                found, _ = best_combined(self.frozen, sides, row, stop)
                assert not combines(self.frozen.question.plan.pattern) or found is None or found.refused, (row, found)
                self.counts["combined"] += found is not None
                self.counts["nested"] += found is not None and self.query.pattern[0] != "and"
        self.counts["cases"] += 1
        return True


def pattern_is_empty(program: Program) -> bool:
    """Whether a pattern may take no row."""
    return any(option.kind == "end" for option in program.options(program.first, False, False))


def random_rows(rng: random.Random) -> list[dict]:
    """Rows of one partition. Sometimes the first ones have NULL times."""
    rows = selection.random_rows(rng, rng.choice([1, 3, 5, 7, 9]))
    without = rng.choice([0, 0, 0, 0, 0, 1, 2])
    return [row | {"id": None} if number < without else row for number, row in enumerate(rows)]


def checked(seed: int, wanted: int, shapes: tuple[str, ...] = (*PLAIN, *NEGATED), counting: tuple[str, ...] = (), **options: str) -> Counter:
    """Checks that many random clauses, and more until each of ``counting`` was counted. ``options``: the strategy and the report of
    :func:`tests.oracle.selection.random_query`."""
    rng, counts = random.Random(seed), Counter()
    while (done := counts["cases"] + counts["skip targets"]) < wanted or done < 20 * wanted and not all(counts[what] for what in counting):
        query, rows = selection.random_query(rng, budget=BUDGET, shapes=shapes, **options), random_rows(rng)
        try:
            case = (SidedCase if pattern.contains(query.pattern, ("and",)) else SelectionCase)(query, rows, counts)
            counts["too large"] += not case.check()
        except Effort:
            counts["too large"] += 1
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.PATTERN_TOO_COMPLEX", error
            counts["too large"] += 1
        except AssertionError as error:
            raise AssertionError(f"{query.to_sql()}\n{rows}\n{error}") from error
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("cases", 10_000), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    begin, totals, seed = time.monotonic(), Counter(), given.seed
    while totals["cases"] + totals["skip targets"] < given.cases:
        totals += checked(seed, BATCH, (*PLAIN, *NEGATED, "conjunction"))
        shown = ", ".join(f"{count:,} {what}" for what, count in totals.items())
        print(f"seeds {given.seed} to {seed}, {time.monotonic() - begin:.0f} s: {shown}; 0 differ", flush=True)
        seed += 1


if __name__ == "__main__":
    main()
