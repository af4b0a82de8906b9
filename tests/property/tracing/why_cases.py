"""Checks a trace of sparkcep.why against brute force: matches, farthest runs, what could have come next, changes and decisions.

Brute force is the oracle's enumeration of all matches (tests/oracle/match.py) and a second reading of runs, which enumerates
derivations without a program. Neither shares code with the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations, product

import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import MatchRuntimeError
from sparkcep.tracing.conditions.comparisons import combined, numbers, smallest_sets
from sparkcep.tracing.conditions.question import ROW, Question, question_of
from sparkcep.tracing.rows.frozen import FrozenRows
from sparkcep.tracing.rows.verify import changed_matches, compared
from sparkcep.tracing.search.lost import lost
from sparkcep.tracing.search.runs import Ended, Run
from sparkcep.tracing.search.trace import Effort, Search, SkipTarget, Trace
from tests.oracle import expr, pattern
from tests.oracle import match as oracle
from tests.oracle.cases import Clause
from tests.property import in_process
from tests.support.caught import without_catching

BUDGET = 6_000
LOGIC = {"and", "or", "not"}
WINDOWS = (None, None, None, ("rows", 2), ("rows", 3), ("id", 2), ("id", 4))


def frozen(question: Question, rows: list[dict]) -> FrozenRows:
    """The rows with the columns of the question. sqlite computes what Spark would compute."""
    columns = tuple(column._replace(text=column.text.replace("IF(", "iif(")) for column in question.columns)
    plan = replace(question.plan, ordered_inputs=(*question.plan.ordered_inputs, *columns))
    table = in_process.inputs(without_catching(plan), {0: rows})
    truths = {question.values[comparison.truth].column for comparison in question.comparisons}
    for i, name in enumerate(table.column_names):  # the guard of a side that may fail makes it look boolean
        if name.startswith("__y") and name not in truths and pa.types.is_boolean(table[name].type):
            table = table.set_column(i, name, table[name].cast(pa.int64()))
    return FrozenRows(question, table.append_column(ROW, pa.array(range(len(rows)), pa.int64())))


def atoms(e: tuple) -> list[tuple]:
    """The comparisons of an oracle's condition, in the order of its text."""
    return [atom for part in e[1:] for atom in atoms(part)] if e[0] in LOGIC else [e]


def forced(e: tuple, context: expr.Context, changed: dict[int, bool | None]) -> bool | None:
    """The value of a condition whose comparisons (by id) may be changed."""
    if id(e) in changed:
        return changed[id(e)]
    if e[0] not in LOGIC:
        return expr.evaluate(e, context)
    values = [forced(part, context, changed) for part in e[1:]]
    if e[0] == "not":
        return None if values[0] is None else not values[0]
    decides = e[0] == "or"
    return decides if decides in values else None if None in values else not decides


class Case:
    """A random clause over rows, with its trace.

    ``counts`` says how much was compared.
    """

    def __init__(self, clause: Clause, rows: list[dict], within: tuple | None, counts: Counter, *, by_sqlite: bool = True) -> None:
        """Reads the clause. ``by_sqlite``: sqlite computes the columns at once; if not, :meth:`freeze` gets them."""
        self.clause, self.rows, self.within, self.counts = clause, rows, within, counts
        window = "" if within is None else f"WINDOW {within[1]}{' ROWS' if within[0] == 'rows' else ''}\n"
        head, word, tail = clause.to_sql().partition("PATTERN (")
        self.text = head + window + word + tail
        self.question = question_of(parse_clause(self.text))
        if by_sqlite:
            self.freeze(frozen(self.question, rows))

    def freeze(self, rows: FrozenRows) -> None:
        """Sets the rows with the columns of the question."""
        self.frozen, self.pattern = rows, rows.pattern()

    def accepts(self, start: int, number: int, changed: Callable[[int], dict] = lambda row: {}) -> Callable[[tuple], bool]:
        def accepts(labels: tuple) -> bool:
            row = start + len(labels) - 1
            if self.within is not None and not oracle._inside_window(self.rows, start, row, self.within):
                return False
            e = self.clause.defines.get(labels[-1])
            return e is None or forced(e, expr.Context(self.rows, start, labels, number, self.clause.subsets), changed(row)) is True

        return accepts

    def named(self, variables: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self.question.name(variable) for variable in variables)

    def ways(self, start: int, accepts: Callable[[tuple], bool]) -> Iterator[tuple[str, ...]]:
        steps = oracle._Steps(BUDGET)
        for path in oracle.enumerate_from(self.clause.pattern, len(self.rows), start, accepts, steps):
            yield tuple(name for name, _ in path)

    # -- checks ---------------------------------------------------------------------------------------------

    def check(self) -> bool:
        """Checks everything. False if brute force would take too long."""
        clause = self.clause
        try:
            wanted = oracle.find_matches(self.rows, clause.pattern, clause.defines, clause.skip, clause.subsets, self.within, BUDGET)
        except oracle.TooManySteps:
            return False
        except oracle.SkipTargetError:
            self.check_skip_target()
            return True
        trace = Trace(self.pattern, self.frozen)
        assert [(m.start, m.labels) for m in wanted] == [(m.start, self.named(m.variables)) for m in trace.matches]
        assert compared(trace, self.frozen.matches()) == []
        self.counts["matches"] += len(wanted)
        assert [d for d in self.pattern.program.depths] == list(depths(clause.pattern).values())
        for search in trace.searches.values():
            self.counts["start rows"] += 1
            try:
                ways = list(self.ways(search.start, self.accepts(search.start, search.number)))
            except oracle.TooManySteps:
                continue
            assert (search.match is not None) == bool(ways)
            if search.match is None:
                self.check_farthest(search)
            else:
                assert self.named(search.match.variables) == ways[0]
                self.check_decisions(search, ways)
        self.check_lost(trace)
        self.counts["cases"] += 1
        return True

    def check_skip_target(self) -> None:
        try:
            Trace(self.pattern, self.frozen)
        except SkipTarget:
            self.counts["skip targets"] += 1
            return
        raise AssertionError("AFTER MATCH SKIP cannot resume, and the trace does")

    def check_farthest(self, search: Search) -> None:
        """The farthest run of a start row without a match."""
        accepts = self.accepts(search.start, search.number)
        try:
            found = derivations(self.clause.pattern, self.rows, search.start, accepts)
        except oracle.TooManySteps:
            return
        ended = search.farthest()
        assert ended is not None
        if not pattern.contains(self.clause.pattern, ("start", "end")):
            cuts: dict[tuple, int] = {}
            for path, need in found:
                cuts[path] = min(cuts.get(path, need), need)
            inner = {path[:n] for path in cuts for n in range(len(path))}
            maximal = [path for path in cuts if path not in inner]
            place_depths = depths(self.clause.pattern)

            def rank(path: tuple) -> tuple[int, int, int]:
                return max((place_depths[place] for _, place in path), default=0), -cuts[path], len(path)

            top = max(map(rank, maximal))
            first = next(path for path, need in found if path in maximal and rank(path) == top and need == cuts[path])
            assert (ended.rank, tuple(zip(self.named(ended.variables), ended.places, strict=True))) == (top, first)
            self.counts["farthest runs"] += 1
        self.check_next(search, ended, accepts)

    def check_next(self, search: Search, ended: Ended, accepts: Callable[[tuple], bool]) -> None:
        """Each option after a run is refused, and its smallest sets are those of trying all changes."""
        labels = self.named(ended.variables)
        for option, reason in search.next(ended):
            if option.kind != "row":
                continue
            longer = (*labels, self.question.name(option.variable))
            assert ended.row >= len(self.rows) or not accepts(longer)
            self.counts["options"] += 1
            if reason == "CONDITION":
                self.check_condition(search, ended, option.variable, longer)

    def check_condition(self, search: Search, ended: Ended, variable: int, labels: tuple[str, ...]) -> None:
        e, logic = self.clause.defines[labels[-1]], self.question.conditions[variable]
        context = expr.Context(self.rows, search.start, labels, search.number, self.clause.subsets)
        run = Run.of(search.start, search.number, ended.variables)
        listed, theirs = list(numbers(logic)), atoms(e)
        truths = {number: self.frozen.truth(number, ended.row, run) for number in listed}
        assert list(truths.values()) == [expr.evaluate(atom, context) for atom in theirs]
        assert combined(logic, truths.__getitem__) is expr.evaluate(e, context)
        for number, atom in zip(listed, theirs, strict=True):
            self.check_sides(number, atom, context, ended.row, run)
        sets = smallest_sets(logic, truths.__getitem__)
        assert sets and frozenset() not in sets
        by_number = dict(zip(listed, theirs, strict=True))
        for changes in sets[:8]:  # each set makes it true, and no smaller part of it does
            assert forced(e, context, {id(by_number[n]): truth for n, truth in changes}) is True
            for one in changes:
                assert forced(e, context, {id(by_number[n]): truth for n, truth in changes - {one}}) is not True
        self.counts["conditions"] += 1
        for changes in [changes for changes in sets[:3] if len(changes) == 1]:
            ((number, truth),) = changes
            self.check_change(search, ended.row, number, id(by_number[number]), truth)

    def check_sides(self, number: int, atom: tuple, context: expr.Context, row: int, run: Run) -> None:
        """The sides of a comparison of two values."""
        if atom[0] in ("=", "<>", "<", "<=", ">", ">="):
            wanted = [expr.evaluate(side, context) for side in atom[1:] if side[0] != "lit"]
            found = [self.frozen.value(side, row, run) for side in self.question.comparisons[number].sides]
            assert [float(v) if isinstance(v, float) else v for v in found] == wanted, (atom, found, wanted)
            self.counts["sides"] += len(wanted)

    def check_change(self, search: Search, row: int, number: int, atom: int, truth: bool) -> None:
        """One change at one row: the search then finds the match of brute force, and of the engine."""
        changed = {(number, row): truth}
        found = Trace(self.pattern, self.frozen, changed, search=False).search(search.start, search.number).match
        accepts = self.accepts(search.start, search.number, lambda at: {atom: truth} if at == row else {})
        try:
            wanted = next(self.ways(search.start, accepts), None)
        except oracle.TooManySteps:
            return
        assert (None if found is None else self.named(found.variables)) == wanted
        try:
            engine = next(iter(changed_matches(self.question, self.frozen.table, changed, search.start, search.number)), None)
        except MatchRuntimeError:
            return
        assert (None if engine is None else self.named(engine.variables)) == wanted
        self.counts["changes"] += 1

    def check_decisions(self, search: Search, ways: list[tuple[str, ...]]) -> None:
        """Each decision of a match: what else could have come, and what it leads to."""
        accepts = self.accepts(search.start, search.number)
        for i, decision in enumerate(search.decisions()):
            self.counts["decisions"] += 1
            prefix = ways[0][:i]
            known = {self.question.name(decision.variable) if decision.variable >= 0 else None}
            for other in decision.others:
                name = self.question.name(other.variable) if other.variable >= 0 else None
                known.add(name)
                longer = (*prefix, *([name] if name else []))
                leads = any(way[: i + 1] == longer if name else way == longer for way in ways)
                taken = name is None or (search.start + i < len(self.rows) and accepts(longer))
                assert other.verdict == ("refused" if not taken else "matches" if leads else "fails"), (i, other)
                self.counts["other options"] += 1
            for way in ways:
                if way[:i] == prefix:
                    assert (way[i] if len(way) > i else None) in known

    def check_lost(self, trace: Trace) -> None:
        """Rows in no match have been start rows, and those lost to an earlier match are found."""
        taken = {row for match in trace.matches for row in range(match.start, match.end)}
        try:
            every = oracle.find_matches(self.rows, self.clause.pattern, self.clause.defines, ("to next row",), self.clause.subsets, self.within, BUDGET)
        except oracle.TooManySteps:
            return
        for row in set(range(len(self.rows))) - taken:
            assert row in trace.searches
            wanted = next(((m.start, m.labels) for m in every if m.start not in trace.searches and m.start <= row < m.stop), None)
            found = lost(trace, row, numbered=self.question.numbered)
            assert (found and (found.start, self.named(found.variables))) == wanted
            self.counts["rows in no match"] += 1
            self.counts["lost"] += wanted is not None


# -- a second reading of runs -------------------------------------------------------------------------------------------


def numbered(p: tuple, places: list[int]) -> tuple:
    """A pattern with the place of each variable in the text."""
    if p[0] == "var":
        places.append(len(places))
        return ("var", p[1], len(places) - 1)
    if p[0] in ("cat", "alt", "permute"):
        return (p[0], [numbered(part, places) for part in p[1]])
    return (p[0], numbered(p[1], places), *p[2:]) if p[0] in ("rep", "excl", "within") else p


def least(p: tuple) -> int:
    """The fewest rows of a pattern."""
    if p[0] == "var":
        return 1
    if p[0] in ("cat", "permute"):
        return sum(map(least, p[1]))
    if p[0] == "alt":
        return min(map(least, p[1]))
    return p[2] * least(p[1]) if p[0] == "rep" else least(p[1]) if p[0] in ("excl", "within") else 0


def depths(p: tuple) -> dict[int, int]:
    """Of each place the fewest rows with which a way takes it."""
    found: dict[int, int] = {}

    def walk(p: tuple, before: int) -> None:
        if p[0] == "var":
            found[p[2]] = min(found.get(p[2], before + 1), before + 1)
        elif p[0] == "cat":
            for part in p[1]:
                walk(part, before)
                before += least(part)
        elif p[0] == "alt":
            for part in p[1]:
                walk(part, before)
        elif p[0] == "permute":
            for order in permutations(p[1]):
                walk(("cat", list(order)), before)
        elif p[0] in ("rep", "excl", "within"):
            walk(p[1], before)

    walk(numbered(p, []), 0)
    return dict(sorted(found.items()))


def derivations(p: tuple, rows: list[dict], start: int, accepts: Callable[[tuple], bool], limit: int = 8_000) -> list[tuple[tuple, int]]:
    """All derivations, each cut at its first refused variable: its ((name, place), ...), and the rows that it needs beyond."""
    left, out = [limit], []

    def go(rest: tuple | None, path: tuple) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise oracle.TooManySteps
        here = start + len(path)
        if rest is None:
            out.append((path, 0))
            return
        p, rest = rest
        kind = p[0]
        if kind == "var":
            longer = (*path, (p[1], p[2]))
            if here < len(rows) and accepts(tuple(name for name, _ in longer)):
                go(rest, longer)
                return
            need = 1
            while rest is not None:
                q, rest = rest
                need += least(q) if q[0] != "more" else max(q[3] - q[2] - 1, 0) * least(q[1])
            out.append((path, need))
        elif kind == "cat":
            for part in reversed(p[1]):
                rest = (part, rest)
            go(rest, path)
        elif kind == "alt":
            for part in p[1]:
                go((part, rest), path)
        elif kind == "permute":
            for order in permutations(p[1]):
                go((("cat", list(order)), rest), path)
        elif kind == "rep":
            loop(p[1], 0, p[2], p[3], p[4], rest, path)
        elif kind == "more":
            _, body, done, low, high, greedy, began = p
            if done >= low and began == len(path):
                go(rest, path)
            else:
                loop(body, done + 1, low, high, greedy, rest, path)
        elif kind == "excl":
            go((p[1], rest), path)
        elif kind == "empty" or (kind == "start" and here == 0) or (kind == "end" and here == len(rows)):
            go(rest, path)
        else:
            out.append((path, 0))

    def loop(body: tuple, done: int, low: int, high: int | None, greedy: bool, rest: tuple | None, path: tuple) -> None:
        def inside() -> None:
            go((body, (("more", body, done, low, high, greedy, len(path)), rest)), path)

        if done < low:
            inside()
            return
        ways = [inside] if high is None or done < high else []
        ways.insert(len(ways) if greedy else 0, lambda: go(rest, path))
        for way in ways:
            way()

    go((numbered(p, []), None), ())
    return out


# -- smallest sets --------------------------------------------------------------------------------------------------------


def smallest_by_trying(logic: tuple, truths: list[bool | None]) -> set[frozenset]:
    """The smallest sets of changes that make a condition true, by trying all changes."""
    good = []
    for values in product((None, True, False), repeat=len(truths)):  # None: as it is
        changes = {i: value for i, value in enumerate(values) if value is not None}
        if not any(truths[i] is value for i, value in changes.items()) and combined(logic, lambda i, changes=changes: changes.get(i, truths[i])) is True:
            good.append(frozenset(changes.items()))
    return {one for one in good if not any(other < one for other in good)}


__all__ = ["WINDOWS", "Case", "Effort", "smallest_by_trying"]
