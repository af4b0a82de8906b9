"""SASE+ event selection, windows, negation and conjunction by plain depth-first enumeration.

Follows LANGUAGE sections 3, 4 and 9 word by word. A run is a list of taken rows; what is left of the pattern is a
stack of forms; the stack says which variables may take the next row, in preference order. Every rule is applied
where it is stated and nothing is remembered between runs.

Where the text leaves something open, this is how it is read:

Preferment and anchors
 1. There is no gap before the first variable, before `$`, or before an empty pattern: `A $` wants A on the
    partition's last row, `^ A` on its first.
 2. FIRST MATCH reports empty matches as the standard does, at each start row, under every strategy.
 3. MATCH_NUMBER() in DEFINE is the number the match would get under FIRST MATCH; with ALL MATCHES it is NULL.
SKIP TILL NEXT
 3a. The ways by which a match may end part the ways to take a row: those before it are tried row by row over all rows that may be
 reached, then the match
    ends, then come those behind it.
 4. The windows (WINDOW and WITHIN of a group) belong to the take condition: a row beyond a group's window is not
    accepted by that group's variables and may be ignored.
 5. Negation plays no part in ignoring; it is a condition on finished runs, so FIRST MATCH is the preferred run
    that also satisfies its negations.
PRIOR
 6. PRIOR(x) sees every row taken before the current one, also those of other variables; a bare column in it is
    read from the variable's previous row.
 7. "A NULL PRIOR operand" of a comparison: a left or right side that holds a PRIOR and is NULL. So `price > 1.1 * PRIOR(x)`
    is true on the first iteration and `price > coalesce(PRIOR(x), 0)` is compared.
Negation
 8. Neighbours are those of the path actually taken: in `A? ~B C` without an A, ~B looks at the window before the
    match; in `A ~B C?` without a C at the window after it. Rows of the match itself between the neighbours
    (of the other side of `&`) count as well.
 9. In one side of `&`, start and end mean that side's: `(A ~B) & C` looks from A's row to the end of the window,
    the window being that of the whole match. A side without rows has no neighbours and nothing to look at.
9a. ~(p): no match of p, begun at any row there, with all its rows there, under the clause's strategy. The window of the whole match
holds for p, too, and is
    never in its way. p's conditions see the rows of the finished match and those of p's own match so far.
10. A variable that stands both plainly and negated is one variable: ~B's condition sees the plain B rows before.
Conjunction
11. A condition is across `&` if it names a variable of another side, or no variable at all (`count(*)`) while its
    own variable stands in a side. What it sees is its own variable's rows up to the current one and all rows of all
    others, in row order.
12. Under SKIP TILL NEXT each side ignores rows by its own variables alone, and may begin at any row of the match.
    Whether an ignored row was acceptable is judged as a condition across `&` is: with the finished match.
13. Two labels of one row stand in the order of first appearance in PATTERN. ALL ROWS PER MATCH gives one row per
    (row, variable) pair; running values at a pair see the pairs up to it.
14. Of a start row's matches with a conjunction the lexicographically earliest sequence of (row, place of the variable in
    PATTERN) pairs is preferred; of two, of which one goes on where the other ends, the longer.
15. `(p & q) WITHIN size` bounds the rows of both; `(p & q) r` puts r behind both.
Output
16. With exclusion and ALL MATCHES the preferred derivation of a match says which rows are hidden.
17. A row ignored inside a match is an unmatched row unless another match has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations

from . import expr, measures, pattern
from .cases import _ROWS_TEXT, _SKIP_TEXT, BASE_MEASURES, _random_measure
from .match import SkipTargetError

STRICT, NEXT, ANY = "strict", "next", "any"
FIRST, ALL = "first", "all"

_STRATEGY_TEXT = {STRICT: "STRICT CONTIGUITY", NEXT: "SKIP TILL NEXT MATCH", ANY: "SKIP TILL ANY MATCH"}
_REPORT_TEXT = {FIRST: "FIRST MATCH", ALL: "ALL MATCHES"}
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Budget(Exception):
    """The case is too large for exhaustive search; the caller counts it and goes on."""


@dataclass(frozen=True)
class Found:
    """A match: its (row, variable) pairs in order, and for each whether `{- -}` hides it."""

    number: int
    start: int
    pairs: tuple
    excluded: tuple

    @property
    def last(self):
        return self.pairs[-1][0] if self.pairs else self.start


@dataclass
class Query:
    """One MATCH_RECOGNIZE over rows with the columns p (partition), id (order), v, w, s."""

    pattern: tuple
    pattern_text: str
    defines: dict
    strategy: str = STRICT
    report: str = FIRST
    skip: tuple | None = None  # as in cases.Clause; None: the default
    window: tuple | None = None  # ("rows", n) or ("range", size of id)
    mode: str = measures.ONE_ROW
    subsets: dict = field(default_factory=dict)
    measures: dict = field(default_factory=dict)
    budget: int = 50_000

    time = "id"  # the first ORDER BY column

    def __post_init__(self):
        extended = pattern.contains(self.pattern, ("neg", "and"))
        if extended and self.strategy == STRICT:
            raise ValueError("~ and & need a SKIP TILL strategy")
        if pattern.contains(self.pattern, ("and",)) and self.report == FIRST:
            raise ValueError("& reports ALL MATCHES only")
        if self.report == ALL and self.skip and self.skip[0] in ("to first", "to last"):
            raise ValueError("SKIP TO a variable needs FIRST MATCH")

    def to_sql(self) -> str:
        wanted = ", ".join(f"{expr.to_sql(e)} AS {name}" for name, e in self.measures.items())
        parts = ["PARTITION BY p", "ORDER BY id"]
        if wanted:
            parts.append(f"MEASURES {wanted}")
        parts.append(_ROWS_TEXT[self.mode])
        if self.skip:
            parts.append("AFTER MATCH SKIP " + " ".join([_SKIP_TEXT[self.skip[0]], *self.skip[1:]]))
        parts.append(f"EVENT SELECTION {_STRATEGY_TEXT[self.strategy]} {_REPORT_TEXT[self.report]}")
        parts.append(f"PATTERN ({self.pattern_text})")
        if self.window:
            parts.append(f"WINDOW {self.window[1]}" + (" ROWS" if self.window[0] == "rows" else ""))
        if self.subsets:
            parts.append("SUBSET " + ", ".join(f"{name} = ({', '.join(m)})" for name, m in self.subsets.items()))
        if self.defines:
            parts.append("DEFINE " + ", ".join(f"{v} AS {expr.to_sql(e)}" for v, e in self.defines.items()))
        return "\n".join(parts)

    def find(self, rows) -> list[Found]:
        """The matches of one ordered partition, numbered from 1."""
        search = _Search(self, rows)
        if self.report == FIRST:
            return _first_matches(self, rows, search)
        found = []
        for start in range(len(rows)):
            seen = set()
            for pairs, excluded in search.matches_at(start, None):
                if pairs and pairs not in seen:
                    seen.add(pairs)
                    found.append((start, pairs, excluded))
        if pattern.contains(self.pattern, ("and",)):
            found.sort(key=lambda f: (f[0], [(row, search.order.index(v)) for row, v in f[1]] + [(len(rows), 0)]))
        if self.skip and self.skip[0] == "past last row":
            found = _not_overlapping(found)
        return [Found(i + 1, *f) for i, f in enumerate(found)]

    def matches(self, rows) -> list[list]:
        """Each match as its list of (row position, variable), in the order of the match numbers."""
        return [list(match.pairs) for match in self.find(rows)]

    def output(self, rows) -> list:
        """Rows as (position of the input row or None for ONE ROW, {measure: value}), as measures.output_rows."""
        keyed = []
        matches = self.find(rows)
        for match in matches:
            labels = tuple(variable for _, variable in match.pairs)
            positions = tuple(row for row, _ in match.pairs)
            context = expr.Context(rows, match.start, labels, match.number, self.subsets, positions)
            if self.mode == measures.ONE_ROW:
                keyed.append((match.start, match.number, None, self._values(context, len(labels))))
            elif not labels:
                if self.mode != measures.OMIT_EMPTY:
                    keyed.append((match.start, match.number, match.start, self._values(context, 0)))
            else:
                for i, hidden in enumerate(match.excluded):
                    if not hidden:
                        keyed.append((match.start, match.number, positions[i], self._values(context, i + 1)))
        if self.mode == measures.WITH_UNMATCHED:
            taken = {row for match in matches for row, _ in match.pairs}
            taken |= {match.start for match in matches}
            keyed += [(row, 0, row, dict.fromkeys(self.measures)) for row in range(len(rows)) if row not in taken]
        # Stable: rows of one match keep their order.
        keyed.sort(key=lambda k: (k[0], k[1]))
        return [(row, values) for _, _, row, values in keyed]

    def _values(self, context, seen):
        return {name: expr.evaluate(e, context, seen) for name, e in self.measures.items()}


def _first_matches(query, rows, search):
    found = []
    start = 0
    while start < len(rows):
        number = len(found) + 1
        best = next(search.matches_at(start, number), None)
        if best is None:
            start += 1
            continue
        match = Found(number, start, *best)
        found.append(match)
        start = _resume(match, query.skip or ("past last row",), query.subsets)
    return found


def _resume(match, skip, subsets) -> int:
    """The row at which the search goes on after a match."""
    if not match.pairs or skip[0] == "to next row":
        return match.start + 1
    if skip[0] == "past last row":
        return match.last + 1
    members = subsets.get(skip[1], (skip[1],))
    targets = [row for row, variable in match.pairs if variable in members]
    if not targets:
        raise SkipTargetError(f"no row of the match is mapped to {skip[1]}")
    target = {"to first": targets[0], "to last": targets[-1]}[skip[0]]
    if target == match.start:
        raise SkipTargetError(f"{skip[1]} is the first row of the match")
    return target


def _not_overlapping(found):
    """Of (start, pairs, ..) in preference order: the first to complete, then onward after its last row."""
    kept = []
    at = 0
    while True:
        rest = [f for f in found if f[0] >= at]
        if not rest:
            return kept
        # min() keeps the first of equals: earliest start, then preferment.
        kept.append(min(rest, key=lambda f: f[1][-1][0]))
        at = kept[-1][1][-1][0] + 1


# --- one partition ----------------------------------------------------------------------------------------------
#
# A path is a tuple of
#     ("row", row, variable, excluded)
#     ("neg", variable)                    a ~variable was passed here, or a ~(p), p being a form in place of the variable
#     ("gap", variable, after, before)     the same, from inside a side of `&`, its neighbours' rows known or None
#     ("must", variable, row)              a condition across `&` that the finished match has to satisfy
#     ("ignored", variable, row)           one that it must not satisfy
# What is left of the pattern is None or (form, what is left after it). Besides the forms of patterns there are
#     ("loop", rep, done, since)           done: iterations so far; since: rows taken when the last one began
#     ("close", size, first)               the end of a group WITHIN size that began with the first-th taken row
#     ("unexclude",)                       the end of {- -}
#     ("stop",)                            nothing behind it is looked at


class _Search:
    def __init__(self, query, rows):
        self.query = query
        self.rows = rows
        self.left = query.budget
        self.order = pattern.variables(query.pattern)
        self.others = _other_sides(query.pattern)

    def step(self):
        self.left -= 1
        if self.left < 0:
            raise Budget

    def matches_at(self, start, number):
        """(pairs, excluded) of the matches whose first row is `start`, best first; a match may come twice."""
        for path in self.runs((self.query.pattern, None), (), start, False, number):
            if self.finished(path, number):
                taken = _taken(path)
                yield tuple((row, variable) for _, row, variable, _ in taken), tuple(item[3] for item in taken)

    # --- runs

    def runs(self, left, path, start, anywhere, number):
        """Every way to go on from `path`. anywhere: the first row may be any from `start` on, not only `start`."""
        self.step()
        taken = _taken(path)
        here = taken[-1][1] + 1 if taken else start
        options = list(self.options(left, len(taken), here))
        blocking = self.blocking(left, options, taken, here)
        turn = []  # what may take the next row, up to where the match may end
        for kind, what, passed, rest in options:
            if kind == "take":
                turn.append((what, passed, rest))
                continue
            yield from self.row_by_row(turn, blocking, path, start, anywhere, number)
            turn = []
            if kind == "end":
                yield path + passed
                continue
            for both in self.conjunctions(what, path + passed, start, anywhere, number):
                if self.closes(rest, _taken(both)):
                    yield from self.runs(rest, both, start, anywhere, number)
        yield from self.row_by_row(turn, blocking, path, start, anywhere, number)

    def row_by_row(self, turn, blocking, path, start, anywhere, number):
        """The ways on by a row. Under SKIP TILL NEXT each row is offered to all that may take it before it is ignored; else each
        takes its rows."""
        if not turn:
            return
        candidates = self.candidates(blocking, path, start, anywhere, number)
        if self.query.strategy == NEXT:
            order = [(candidate, way) for candidate in candidates for way in turn]
        else:
            order = [(candidate, way) for way in turn for candidate in candidates]
        for (row, promises), (what, passed, rest) in order:
            verdict = self.accepts(what, row, path, rest, number)
            if verdict is False:
                continue
            item = ("row", row, what, any(form == ("unexclude",) for form in _forms(rest)))
            if verdict is None:
                promises += (("must", what, row),)
            yield from self.runs(rest, path + passed + promises + (item,), start, anywhere, number)

    def blocking(self, left, options, taken, here):
        """(variable, what is left after it) of the transitions whose rows may not be ignored.

        Where the last row ended an iteration of a part that may be repeated, these are the ways to begin the innermost such part
        again.
        """
        if self.query.strategy != NEXT:
            return []
        last = (len(taken), taken[-1][1] + 1 if taken else here)
        while left is not None and taken:
            form, rest = left
            if form[0] == "loop":
                _, (_, body, _, most, _), done, _ = form
                if most is None or done < most:
                    again = self.options((body, (("stop",), rest)), *last)
                    return list(self.takes(again, last))
            elif form[0] not in ("close", "unexclude", "empty", "neg"):
                break
            left = rest
        return list(self.takes(options, last))

    def options(self, left, taken, here, passed=()):
        """What may come next, in preference order: (kind, what, negations passed on the way, what is left then).

        kind "take": the variable `what` takes a row; "and": the sides `what` of a conjunction; "end": a match.
        """
        self.step()
        if left is None:
            yield "end", None, passed, None
            return
        form, rest = left
        kind = form[0]
        if kind == "var":
            yield "take", form[1], passed, rest
        elif kind == "cat":
            for child in reversed(form[1]):
                rest = (child, rest)
            yield from self.options(rest, taken, here, passed)
        elif kind == "alt":
            for child in form[1]:
                yield from self.options((child, rest), taken, here, passed)
        elif kind == "permute":
            # itertools gives the orders of a list lexicographically, by position in the list.
            for order in permutations(form[1]):
                yield from self.options((("cat", list(order)), rest), taken, here, passed)
        elif kind == "rep":
            yield from self.options((("loop", form, 0, None), rest), taken, here, passed)
        elif kind == "loop":
            _, (_, body, least, most, greedy), done, since = form
            again = (body, (("loop", form[1], done + 1, taken), rest))
            if done < least:
                yield from self.options(again, taken, here, passed)
                return
            if done > least and since == taken:
                # An optional iteration over no rows ends the loop where it stands in the preference order.
                yield from self.options(rest, taken, here, passed)
                return
            if not greedy:
                yield from self.options(rest, taken, here, passed)
            if most is None or done < most:
                yield from self.options(again, taken, here, passed)
            if greedy:
                yield from self.options(rest, taken, here, passed)
        elif kind == "within":
            yield from self.options((form[1], (("close", form[2], taken), rest)), taken, here, passed)
        elif kind == "excl":
            yield from self.options((form[1], (("unexclude",), rest)), taken, here, passed)
        elif kind == "neg":
            yield from self.options(rest, taken, here, passed + (form,))
        elif kind == "and":
            yield "and", form[1], passed, rest
        elif (
            kind in ("close", "unexclude", "empty")
            or (kind == "start" and taken == 0 and here == 0)
            or (kind == "end" and here == len(self.rows))
        ):
            yield from self.options(rest, taken, here, passed)

    def candidates(self, blocking, path, start, anywhere, number):
        """(row, promises) for the rows that the strategy lets the run come to next, the earlier first."""
        size = len(self.rows)
        taken = _taken(path)
        if not taken:
            return [(row, ()) for row in (range(start, size) if anywhere else [start])]
        following = taken[-1][1] + 1
        if self.query.strategy == STRICT:
            return [(row, ()) for row in range(following, min(following + 1, size))]
        if self.query.strategy == ANY:
            return [(row, ()) for row in range(following, size)]
        # Skip till next: go on until a row that a blocking transition accepts; that row cannot be ignored.
        reached = []
        promises = ()
        for row in range(following, size):
            reached.append((row, promises))
            verdicts = [(variable, self.accepts(variable, row, path, rest, number)) for variable, rest in blocking]
            if any(verdict is True for _, verdict in verdicts):
                break
            promises += tuple(("ignored", variable, row) for variable, verdict in verdicts if verdict is None)
        return reached

    def takes(self, options, last):
        """(variable, what is left after it) of all transitions that could take the next row; `last`: how many rows are taken, and
        the row behind them."""
        for kind, what, _, rest in options:
            if kind == "take":
                yield what, rest
            elif kind == "and":
                for side in what:
                    yield from self.takes(self.options((side, None), *last), last)

    def conjunctions(self, sides, path, start, anywhere, number):
        """Ways on from `path` by one occurrence of each side."""
        before = len(path)

        def choices(remaining):
            if not remaining:
                yield ()
                return
            for run in self.runs((remaining[0], None), path, start, anywhere or not _taken(path), number):
                for others in choices(remaining[1:]):
                    yield (run, *others)

        for chosen in choices(sides):
            self.step()
            new = {}
            rest = []
            for run in chosen:
                for item in run[before:]:
                    if item[0] == "row":
                        # A variable on both sides holds a row once.
                        new.setdefault(item[1:3], item)
                    elif item[0] in ("must", "ignored"):
                        rest.append(item)
                for variable, after, following in _neighbours(run, before):
                    rest.append(("gap", variable, after, following))
            merged = sorted(new.values(), key=lambda item: (item[1], self.order.index(item[2])))
            whole = path + tuple(merged)
            taken = _taken(whole)
            if not _taken(path) and not anywhere and merged and merged[0][1] != start:
                continue
            if taken and not self.inside(self.query.window, taken[0][1], taken[-1][1]):
                continue
            yield whole + tuple(rest)

    def accepts(self, variable, row, path, rest, number):
        """May `variable` take `row`? True, False, or None where only the finished match can tell."""
        self.step()
        taken = _taken(path)
        first = taken[0][1] if taken else row
        if not self.inside(self.query.window, first, row):
            return False
        if not self.closes(rest, taken + [("row", row, variable, False)]):
            return False
        if self.across(variable):
            return None
        pairs = [(item[1], item[2]) for item in taken]
        return self.holds(variable, row, pairs, number)

    def inside(self, window, first, last) -> bool:
        if window is None:
            return True
        kind, size = window
        if kind == "rows":
            return last - first < size
        begin, end = (self.rows[row][self.query.time] for row in (first, last))
        return begin is not None and end is not None and abs(end - begin) < size

    def closes(self, rest, taken) -> bool:
        """Are all groups that are open with these rows inside their own windows?"""
        for form in _forms(rest):
            if form[0] == "close" and len(taken) > form[2]:
                group = [item[1] for item in taken[form[2] :]]
                if not self.inside(("rows" if isinstance(form[1], pattern.Rows) else "range", form[1]), group[0], group[-1]):
                    return False
        return True

    # --- conditions

    def holds(self, variable, row, others, number) -> bool:
        """The condition of `variable` at `row`, where `others` are the pairs in sight besides that one."""
        condition = self.query.defines.get(variable)
        if condition is None:
            return True
        mine = [r for r, v in others if v == variable]
        before = self.context(others, mine[-1], number) if mine else None
        context = self.context([*others, (row, variable)], row, number, before)
        return all(_conjunct(c, context) is True for c in _conjuncts(condition))

    def context(self, pairs, here, number, before=None):
        pairs = sorted(pairs, key=lambda pair: (pair[0], self.order.index(pair[1])))
        labels = tuple(v for _, v in pairs)
        positions = tuple(r for r, _ in pairs)
        start = positions[0] if positions else here
        return expr.Context(self.rows, start, labels, number, self.query.subsets, positions, here, before)

    def across(self, variable) -> bool:
        """Does the condition of `variable` look across `&`?"""
        others = self.others.get(variable)
        if not others or variable not in self.query.defines:
            return False
        for name in _named(self.query.defines[variable]):
            members = self.query.subsets.get(name, (name,))
            if name is None or others & set(members):
                return True
        return False

    def holds_finally(self, variable, row, pairs, number) -> bool:
        """The condition of `variable` at `row`: itself running, all others as in the finished match."""
        return self.holds(variable, row, [(r, v) for r, v in pairs if v != variable or r < row], number)

    def finished(self, path, number) -> bool:
        """What only the finished match can tell: conditions across `&`, and negations."""
        taken = _taken(path)
        pairs = [(item[1], item[2]) for item in taken]
        for item in path:
            if item[0] in ("must", "ignored"):
                if self.holds_finally(item[1], item[2], pairs, number) != (item[0] == "must"):
                    return False
        for variable, after, before in _neighbours(path, 0):
            if after is None and before is None:
                continue
            first, last = taken[0][1], taken[-1][1]
            if (after is None or before is None) and self.query.window is None:
                raise ValueError("~ at an end of the pattern needs WINDOW")
            if after is None:
                looked_at = [row for row in range(before) if self.inside(self.query.window, row, last)]
            elif before is None:
                size = len(self.rows)
                looked_at = [row for row in range(after + 1, size) if self.inside(self.query.window, first, row)]
            else:
                looked_at = range(after + 1, before)
            self.step()
            if isinstance(variable, tuple):
                group = _Between(self, variable, looked_at, pairs)
                there = group.found(number)
                self.left = group.left
            else:
                there = any(self.holds_finally(variable, row, pairs, number) for row in looked_at)
            if there:
                return False
        return True


class _Between(_Search):
    """The matches of a negated group whose rows lie among some rows: each condition sees the finished match and, of the group, the
    rows so far."""

    def __init__(self, search, inner, among, pairs):
        super().__init__(search.query, search.rows)
        self.left, self.inner, self.among, self.pairs = search.left, inner, set(among), pairs
        self.others = {}

    def found(self, number) -> bool:
        """Is there one, begun at any of the rows?"""
        return any(next(self.runs((self.inner, None), (), start, False, number), None) is not None for start in sorted(self.among))

    def accepts(self, variable, row, path, rest, number):
        return row in self.among and super().accepts(variable, row, path, rest, number)

    def holds(self, variable, row, others, number) -> bool:
        return super().holds(variable, row, [*self.pairs, *others], number)


def _taken(path) -> list:
    return [item for item in path if item[0] == "row"]


def _forms(left):
    while left is not None:
        form, left = left
        yield form


def _neighbours(path, begin):
    """(negated variable, row before or None, row after or None) of the negations from path[begin] on."""
    for i, item in enumerate(path):
        if i < begin or item[0] not in ("neg", "gap"):
            continue
        earlier, later = _taken(path[:i]), _taken(path[i + 1 :])
        after = earlier[-1][1] if earlier else None
        before = later[0][1] if later else None
        if item[0] == "gap":
            # What the side could not know it has from outside: the rows before the conjunction and behind it.
            side_had_rows = item[2] is not None or item[3] is not None
            after = item[2]
            before = item[3] if item[3] is not None else before
            if not side_had_rows:
                after = before = None
        yield item[1], after, before


def _conjuncts(condition):
    if condition[0] == "and":
        return _conjuncts(condition[1]) + _conjuncts(condition[2])
    return [condition]


def _conjunct(e, context):
    if context.before is None and _contains(e, "prior"):
        asked = [operand for operand in e[1:] if _contains(operand, "prior")] if e[0] in _COMPARISONS else [e]
        if any(expr.evaluate(one, context) is None for one in asked):
            return True
    return expr.evaluate(e, context)


def _contains(e, kind) -> bool:
    return isinstance(e, tuple) and (e[0] == kind or any(_contains(part, kind) for part in e[1:]))


def _named(e) -> set:
    """The variables and subsets an expression navigates over; None stands for all rows."""
    if not isinstance(e, tuple):
        return set()
    if e[0] in ("nav", "agg"):
        # What stands inside speaks of the row that was reached.
        return {e[2]}
    if e[0] == "classifier":
        return {e[1]}
    return set().union(*(_named(part) for part in e[1:]))


def _other_sides(p) -> dict:
    """Variable -> the variables of the other sides of the conjunctions it stands in."""
    others = {}
    for child in pattern.children(p):
        for variable, names in _other_sides(child).items():
            others.setdefault(variable, set()).update(names)
    if p[0] == "and":
        for side in p[1]:
            far = {v for other in p[1] if other is not side for v in pattern.variables(other)}
            for variable in pattern.variables(side):
                others.setdefault(variable, set()).update(far)
    return others


# --- random queries ---------------------------------------------------------------------------------------------


def random_rows(rng, size):
    """Rows of one partition, in order: p, id (ascending with gaps), v, w, s, with some NULLs."""
    at = rng.randrange(3)
    rows = []
    for row in expr.random_rows(rng, size):
        rows.append({"p": 0, **row, "id": at})
        at += rng.choice([1, 1, 1, 2, 2, 4])
    return rows


KINDS = ("row", "row", "prev", "history")  # of conditions, as expr.random_condition takes them


def random_query(rng, *, strategy=None, report=None, shapes=("plain", "plain", "negation", "conjunction"), budget=50_000, kinds=KINDS):
    """A random query. shapes: what the pattern may be; strategy and report: None for any that fit; kinds: those of conditions."""
    shape = rng.choice(shapes)
    nested = shape == "nested"
    if nested:
        shape = "plain"
    plain = shape == "plain"
    strategy = strategy or rng.choice([STRICT, NEXT, NEXT, ANY, ANY] if plain else [NEXT, ANY])
    sided = shape in ("conjunction", "sided group")
    report = ALL if sided else report or rng.choice([FIRST, ALL])
    if strategy == STRICT and not plain:
        shape, plain = "plain", True
    names = ["A", "B", "C", "D"][: rng.choice([1, 2, 3, 3, 4])]
    negated = []
    if nested:
        p = _random_nested(rng, names)
    elif plain:
        p = _random_part(rng, names, rng.choice([1, 2, 2, 3]))
        if rng.random() < 0.2:
            p = ("cat", [p, ("var", rng.choice(names))])
    elif shape == "negation":
        p, negated = _random_negation(rng, names)
    elif shape == "negation of a taken variable":
        p = _random_taken_negation(rng, names)
    elif shape == "group":
        p, negated = _random_negation(rng, names, group=True)
    else:
        p, negated = _random_conjunction(rng, group=not shape == "conjunction")
    positive = [v for v in pattern.variables(p) if v not in negated]
    subsets = {}
    if positive and rng.random() < 0.3:
        subsets["S"] = tuple(sorted(rng.sample(positive, rng.randrange(1, len(positive) + 1))))
    defines = {}
    for name in positive:
        if rng.random() < 0.85:
            defines[name] = _random_define(rng, name, positive, tuple(subsets), "conjunction" if sided else shape, report, kinds)
    for name in negated:
        # in a group a condition may name the group's variables, too, or only look at its row
        if "group" in shape and rng.random() < 0.4:
            if rng.random() < 0.8:
                defines[name] = expr.random_condition(rng, name, [name], "row", ())
            continue
        seen = sorted({*positive, *negated}) if "group" in shape else positive
        defines[name] = _random_define(rng, name, seen, tuple(subsets), "conjunction" if sided else shape, report, kinds, prior="group" in shape)
    window = None
    if pattern.contains(p, ("neg",)) or rng.random() < 0.5:
        window = ("rows", rng.randrange(2, 7)) if rng.random() < 0.5 else ("range", rng.randrange(2, 11))
    skip = None
    if report == FIRST and positive and rng.random() < 0.25:
        skip = (rng.choice(["to first", "to last"]), rng.choice([*positive, *subsets]))
    elif rng.random() < 0.6:
        skip = (rng.choice(["past last row", "to next row"]),)
    mode = rng.choice([measures.ONE_ROW, measures.ONE_ROW, *_ROWS_TEXT])
    wanted = dict(BASE_MEASURES)
    for i in range(rng.randrange(0, 3)):
        wanted[f"x{i}"] = _random_measure(rng, positive, tuple(subsets))
    text = pattern.to_text(p, rng)
    return Query(p, text, defines, strategy, report, skip, window, mode, subsets, wanted, budget)


def _random_part(rng, names, depth):
    p = pattern.random_pattern(rng, names, depth, exclude=False, anchors=rng.random() < 0.1, empty=rng.random() < 0.2)
    return _with_windows(rng, p)


def _random_nested(rng, names):
    """An iterated part that ends in an iterated part, and variables after it."""
    least, most = rng.choice([(1, 1), (2, 2), (0, 1), (1, 2)])
    last = ("rep", _random_part(rng, names, rng.choice([0, 0, 1])), least, most, rng.random() < 0.8)
    body = ("cat", [("var", rng.choice(names)), last]) if rng.random() < 0.8 else last
    p = ("rep", _with_windows(rng, body), rng.choice([0, 1, 1, 2]), rng.choice([2, 3, None, None]), rng.random() < 0.8)
    return ("cat", [p, *(("var", name) for name in rng.choices(names, k=rng.choice([1, 1, 2])))])


def _with_windows(rng, p):
    """Some groups get windows of their own."""
    if p[0] in ("cat", "alt", "permute"):
        p = (p[0], [_with_windows(rng, child) for child in p[1]])
    elif p[0] == "rep":
        p = (p[0], _with_windows(rng, p[1]), *p[2:])
    if p[0] in ("cat", "alt", "rep", "permute") and rng.random() < 0.12:
        return ("within", p, rng.randrange(1, 8))
    return p


def _random_group(rng, names):
    """A pattern to be negated: it takes a row at least."""
    while True:
        roll = rng.random()
        if roll < 0.4:
            p = ("cat", [("var", name) for name in names])
        else:
            p = _with_windows(rng, pattern.random_pattern(rng, names, rng.choice([1, 1, 2]), exclude=False, anchors=False, empty=False))
        if p[0] != "var" and _least(p) > 0:
            return p


def _least(p) -> int:
    """How many rows a pattern takes at least."""
    if p[0] == "rep":
        return p[2] * _least(p[1])
    if p[0] == "alt":
        return min(map(_least, p[1]))
    return 1 if p[0] == "var" else sum(map(_least, pattern.children(p)))


def _random_negation(rng, names, group=False):
    parts = [_random_part(rng, names, rng.choice([0, 0, 1, 1, 2])) for _ in range(rng.choice([1, 2, 2, 3]))]
    negated = rng.sample(["M", "N"], rng.choice([1, 1, 1, 2]))
    if group:
        p = _random_group(rng, ["M", "N"] if rng.random() < 0.7 else ["M", "N", "O"])
        parts.insert(rng.randrange(len(parts) + 1), ("neg", p))
        singles = ["K"] if rng.random() < 0.2 else []
        negated = pattern.variables(p) + singles
    for name in singles if group else negated:
        parts.insert(rng.randrange(len(parts) + 1), ("neg", name))
    p = ("cat", parts)
    roll = rng.random()
    if roll < 0.1:
        p = ("alt", [p, ("var", rng.choice(names))])
    elif roll < 0.35 and any(part[0] != "neg" for part in parts):
        p = ("rep", p, rng.choice([0, 1, 1, 2]), rng.choice([2, 3, None]), rng.random() < 0.7)
        p = ("cat", rng.sample([p, ("var", rng.choice(names))], 2)) if rng.random() < 0.5 else p
    return p, negated


def _random_taken_negation(rng, names):
    """Variables one after the other, with the negation of one or two of them."""
    parts = [("var", rng.choice(names)), *(_random_part(rng, names, rng.choice([0, 0, 1])) for _ in range(rng.choice([1, 2, 2])))]
    rng.shuffle(parts)
    for name in rng.choices(sorted({v for part in parts for v in pattern.variables(part)}), k=rng.choice([1, 1, 2])):
        parts.insert(rng.randrange(len(parts) + 1), ("neg", name))
    if rng.random() < 0.3:
        return ("cat", [("rep", ("cat", parts), *rng.choice([(1, 2), (2, 2), (1, None)]), True), ("var", rng.choice(names))])
    return ("cat", parts)


def _random_conjunction(rng, group=False):
    """Sides share no variable: what a shared one would see is nobody's question."""
    names = ["A", "B", "C", "D"]
    rng.shuffle(names)
    sides = []
    negated = []
    for _ in range(rng.choice([2, 2, 2, 3])):
        own = [names.pop() for _ in range(rng.choice([1, 1, 2])) if names]
        if own:
            sides.append(_random_part(rng, own, rng.choice([0, 1, 1, 2])))
    if len(sides) < 2:
        sides.append(("var", "E"))
    if group or rng.random() < 0.15:
        at = rng.randrange(len(sides))
        negation = ("neg", _random_group(rng, ["M", "N"]) if group else "N")
        negated = pattern.variables(negation)
        sides[at] = ("cat", rng.sample([sides[at], negation], 2) + [("var", "F")] * rng.randrange(2))
    p = ("and", sides)
    roll = rng.random()
    if roll < 0.1:
        p = ("alt", rng.sample([p, ("var", "G")], 2))
    elif roll < 0.2:
        p = ("cat", [("var", "G"), p])
    elif roll < 0.3:
        p = ("cat", [p, ("var", "H")])
    elif roll < 0.35:
        p = ("and", [("cat", [p, ("var", "H")]), ("var", "G")])
    elif roll < 0.4 and not negated:
        p = ("rep", p, rng.choice([0, 1]), rng.choice([2, None]), rng.random() < 0.7)
    elif roll < 0.45:
        p = ("within", p, rng.randrange(2, 8))
    return p, negated


def _random_define(rng, name, positive, subsets, shape, report, kinds=KINDS, prior=True):
    while True:
        if prior and rng.random() < 0.25:
            e = _random_prior(rng, name, positive, subsets)
        else:
            e = expr.random_condition(rng, name, positive or [name], rng.choice(kinds), subsets)
        if report == ALL and _contains(e, "match_number"):
            continue
        # Which label a row has among rows of the finished match is nobody's question either.
        if shape != "plain" and _contains(e, "classifier"):
            continue
        if shape == "conjunction" and _distinct(e):
            continue
        return e


def _distinct(e) -> bool:
    return isinstance(e, tuple) and ((e[0] == "agg" and e[4]) or any(_distinct(part) for part in e[1:]))


def _random_prior(rng, name, positive, subsets):
    column = ("col", rng.choice("vvw"))
    over = rng.choice([name, name, name, *positive, *subsets, None])
    roll = rng.random()
    if roll < 0.6:
        seen = ("agg", rng.choice(["avg", "sum", "min", "max", "count"]), over, column, False)
    elif roll < 0.7:
        seen = ("agg", "count", over, "*", False)
    else:
        seen = ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 0, 1]), column)
    mine = rng.choice([column, ("nav", "LAST", name, 0, column)])
    operands = [mine, ("prior", seen)]
    rng.shuffle(operands)
    e = (rng.choice(["<", "<=", ">", ">=", "<>"]), *operands)
    roll = rng.random()
    if roll < 0.35:
        both = [e, expr.random_condition(rng, name, positive, "row", subsets, 0)]
        rng.shuffle(both)
        return ("and", *both)
    if roll < 0.5:
        # No comparison at the top: its three-valued value on the first iteration decides.
        e = ("or", e, expr.random_condition(rng, name, positive, "row", subsets, 0))
    return ("not", e) if 0.45 < roll < 0.6 else e
