"""Named sequences (SEQUENCE, CPR) and merged preferences: all matches of the pattern with each name replaced, scored and sorted.

The matches are those of :mod:`tests.oracle.selection`. Every rule is applied to finished matches: windows, UPDATE, objectives,
branches, merges, ranks and changes. Nothing is remembered between windows but the list of the one before.

Where the text leaves something open, this is how it is read:

1. UPDATE is a condition on finished matches. It does not change which rows SKIP TILL NEXT may ignore.
2. Objectives of a sequence that belong to branches of its own pattern count only there, as in PREF. If none counts, the score of
   the sequence is NULL.
3. The name of an objective is strict in its sequence alone, not in what the objective reads.
4. REPORT CHANGES: WINDOW_START() and WINDOW_END() of a retracted row are those of the window that no longer lists it. Windows
   without a row do not count: the list before is that of the window before that holds a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

from . import expr, measures, pattern
from .cases import _ROWS_TEXT, _SKIP_TEXT
from .selection import _REPORT_TEXT, _STRATEGY_TEXT, Query

MAX, MIN, SUM, AVG, PRODUCT = "MAX", "MIN", "SUM", "AVG", "PRODUCT"
INSERT, RETRACT = "insert", "retract"

MATCH_ERRORS = ("match errors",)

# Measures of a match that only a ranking has, or an approximate match.
RANKING_MEASURES = {
    ("match score",): "MATCH_SCORE()",
    ("match rank",): "MATCH_RANK()",
    ("window start",): "WINDOW_START()",
    ("window end",): "WINDOW_END()",
    ("change",): "CHANGE()",
    MATCH_ERRORS: "MATCH_ERRORS()",
}
OF_THE_WINDOW = (("window start",), ("window end",), ("change",))


@dataclass(frozen=True)
class Objective:
    goal: str
    e: tuple
    name: str | None = None


@dataclass(frozen=True)
class Sequence:
    """SEQUENCE name AS (pattern) WITHIN within UPDATE update PREF objectives COMBINE BY combine."""

    name: str
    pattern: tuple
    within: int | None = None
    update: int | None = None
    objectives: tuple = ()
    combine: str = SUM

    @property
    def variables(self) -> list[str]:
        return pattern.variables(self.pattern)

    @property
    def expanded(self) -> tuple:
        """The pattern that replaces its name."""
        return ("within", self.pattern, self.within) if self.within is not None and self.update is None else self.pattern


@dataclass(frozen=True)
class Preference:
    """PREF of the whole. ``objectives`` None: PREF SEQUENCES with ``weights``."""

    objectives: tuple | None = None
    weights: tuple = ()
    combine: str = SUM


def expanded(p, sequences) -> tuple:
    """The pattern with each name of a sequence replaced."""
    if p[0] == "var":
        return next((s.expanded for s in sequences if s.name == p[1]), p)
    if p[0] in ("cat", "alt", "and", "permute"):
        return (p[0], [expanded(part, sequences) for part in p[1]])
    if p[0] in ("rep", "within"):
        return (p[0], expanded(p[1], sequences), *p[2:])
    return p


@dataclass(frozen=True)
class Listed:
    """A row of the answer: a match of a window, at its rank."""

    key: object
    match: object
    score: object
    rank: int
    window: int | None = None
    change: str | None = None


@dataclass
class Ranked(Query):
    """A query with ``written`` as PATTERN, over rows with the columns p (partition), t and id (order), v, w, s; id is the position.

    ``pattern`` is the written one with names replaced. ``slide``: SLIDE; ``top`` None: without TOP.
    """

    written: tuple = ("empty",)
    sequences: tuple = ()
    preference: Preference | None = None
    top: int | None = None
    overall: bool = False
    slide: int | None = None
    changes: bool = False
    descending: bool = False

    time = "t"

    def __post_init__(self):
        self.pattern = expanded(self.written, self.sequences)
        super().__post_init__()
        self.members = self.subsets | {s.name: tuple(s.variables) for s in self.sequences}

    # --- text

    def to_sql(self) -> str:
        unit = " ROWS" if self.window and self.window[0] == "rows" else ""
        wanted = ", ".join(f"{text(e)} AS {name}" for name, e in self.measures.items())
        parts = ["PARTITION BY p", f"ORDER BY t{' DESC' * self.descending}, id", f"MEASURES {wanted}", _ROWS_TEXT[self.mode]]
        if self.skip:
            parts.append("AFTER MATCH SKIP " + " ".join([_SKIP_TEXT[self.skip[0]], *self.skip[1:]]))
        parts.append(f"EVENT SELECTION {_STRATEGY_TEXT[self.strategy]} {_REPORT_TEXT[self.report]}")
        for s in self.sequences:
            item = f"SEQUENCE {s.name} AS ({pattern.to_text(s.pattern)})"
            item += "" if s.within is None else f" WITHIN {s.within}"
            item += "" if s.update is None else f" UPDATE {s.update}"
            parts.append(item + (f" PREF {_objectives(s.objectives, s.combine)}" if s.objectives else ""))
        parts.append(f"PATTERN ({self.pattern_text})")
        if self.window:
            parts.append(f"WINDOW {self.window[1]}{unit}" + ("" if self.slide is None else f" SLIDE {self.slide}{unit}"))
        if self.preference is not None and self.preference.objectives is None:
            weights = ", ".join(f"{name} {weight}" for name, weight in self.preference.weights)
            weighted = f" WEIGHTS ({weights})" if weights else ""
            parts.append(f"PREF SEQUENCES{weighted} COMBINE BY {self.preference.combine}")
        elif self.preference is not None:
            parts.append(f"PREF {_objectives(self.preference.objectives, self.preference.combine)}")
        if self.top is not None:
            parts.append(f"TOP {self.top}{' OVERALL' * self.overall}{' REPORT CHANGES' * self.changes}")
        if self.subsets:
            parts.append("SUBSET " + ", ".join(f"{name} = ({', '.join(m)})" for name, m in self.subsets.items()))
        if self.defines:
            parts.append("DEFINE " + ", ".join(f"{v} AS {expr.to_sql(e)}" for v, e in self.defines.items()))
        return "\n".join(parts)

    # --- scores

    def context(self, rows, pairs, number=None) -> expr.Context:
        labels, positions = tuple(variable for _, variable in pairs), tuple(row for row, _ in pairs)
        return expr.Context(rows, positions[0] if positions else 0, labels, number, self.members, positions)

    def score_of(self, s, rows, pairs):
        """The score of a sequence in a match; NULL, too, if it takes no part."""
        own = self.own(s, pairs)
        if not own:
            return None
        counted = []
        for objective in s.objectives:
            if counts(strict(objective.e), s.pattern, s.pattern, (), own):
                counted.append(signed(objective, self.value(objective.e, rows, own)))
        return merged(counted, s.combine)

    def own(self, s, pairs) -> tuple:
        """The rows of a sequence in a match."""
        return tuple(pair for pair in pairs if pair[1] in s.variables)

    def score(self, rows, pairs):
        """The score of a match."""
        preference = self.preference or Preference()
        if preference.objectives is None:
            taking_part = [s for s in self.sequences if s.objectives and self.own(s, pairs)]
            weights = dict(preference.weights)
            scores = [self.score_of(s, rows, pairs) for s in taking_part]
            return merged(scores, preference.combine, [weights.get(s.name, 1) for s in taking_part])
        counted = []
        for objective in preference.objectives:
            if counts(strict(objective.e), self.written, self.pattern, self.sequences, pairs):
                counted.append(signed(objective, self.value(objective.e, rows, pairs)))
        return merged(counted, preference.combine)

    def value(self, e, rows, pairs, seen=None, number=None):
        """The value of a measure or an objective in a match."""
        if e[0] in ("+", "-", "*"):
            a, b = (self.value(part, rows, pairs, seen, number) for part in e[1:])
            return None if a is None or b is None else expr._ARITHMETIC[e[0]](a, b)
        if e[0] == "sqrt":
            a = self.value(e[1], rows, pairs, seen, number)
            return None if a is None else sqrt(a)
        by_name = {s.name: s for s in self.sequences}
        if e[0] == "score":
            return self.score_of(by_name[e[1]], rows, pairs)
        found = self.objective(e)
        if found is not None:
            s, objective = found
            own = self.own(s, pairs)
            return self.value(objective.e, rows, own) if own else None
        return expr.evaluate(e, self.context(rows, pairs, number), seen)

    def objective(self, e):
        """(sequence, objective) that `s.name` speaks of, or None."""
        if e[:2] != ("nav", "LAST") or e[3] or e[4][0] != "col":
            return None
        return next(((s, o) for s in self.sequences for o in s.objectives if (s.name, o.name) == (e[2], e[4][1])), None)

    # --- windows and ranks

    def windows(self, rows) -> list:
        """Where the windows begin that hold a row; [None] without SLIDE."""
        if self.slide is None:
            return [None]
        kind, size = self.window
        if kind == "rows":
            return list(range(0, len(rows), self.slide))
        times = [row["t"] for row in rows if row["t"] is not None]
        if not times:
            return []
        low = (min(times) - size) // self.slide * self.slide
        starts = range(low, max(times) + 1, self.slide)
        return [start for start in starts if any(start <= time < start + size for time in times)]

    def lies_in(self, window, rows, pairs) -> bool:
        """Do all rows lie in the window, and those of each sequence in its part of it?"""
        if window is None:
            return True
        kind, size = self.window

        def at(row):
            return row if kind == "rows" else rows[row]["t"]

        if not all(window <= at(row) < window + size for row, _ in pairs):
            return False
        for s in self.sequences:
            if s.update is None:
                continue
            end = size + window // s.update * s.update
            if not all(max(window, end - s.within) <= at(row) < end for row, _ in self.own(s, pairs)):
                return False
        return True

    def order(self, rows, match, score) -> tuple:
        """The values that rank a match before its rows. The least is best."""
        return score is None, 0 if score is None else -score

    def ranked(self, partitions) -> list[Listed]:
        """The k best of each partition and window. With OVERALL those of a window of all partitions."""
        found = {}
        for place, (key, rows) in enumerate(sorted(partitions.items(), key=lambda item: (item[0] is not None, item[0] or 0))):
            matches = [match for match in self.find(rows) if match.pairs]
            for window in self.windows(rows):
                pool = found.setdefault((window,) if self.overall else (window, key), [])
                for match in matches:
                    if self.lies_in(window, rows, match.pairs):
                        score = self.score(rows, match.pairs)
                        vector = sorted({row for row, _ in match.pairs})
                        pool.append(((*self.order(rows, match, score), vector, place, match.number), key, match, score))
        lists = {}
        for (window, *own), pool in found.items():
            best = sorted(pool, key=lambda item: item[0])[: self.top]
            lists.setdefault(tuple(own), {})[window] = [
                Listed(key, match, score, rank, window) for rank, (_, key, match, score) in enumerate(best, 1)
            ]
        out = []
        for windows in lists.values():
            in_order = [windows[start] for start in sorted(windows, key=lambda start: start or 0)]
            out += self.changed(sorted(windows, key=lambda start: start or 0), in_order, partitions) if self.changes else sum(in_order, [])
        return out

    def changed(self, starts, lists, partitions) -> Iterator[Listed]:
        """REPORT CHANGES."""
        before = []
        for start, now in zip(starts, lists, strict=True):
            for ours, theirs, change in ((before, now, RETRACT), (now, before, INSERT)):
                known = [self.identity(one, partitions) for one in theirs]
                for one in ours:
                    if self.identity(one, partitions) not in known:
                        yield Listed(one.key, one.match, one.score, one.rank, start, change)
            before = now

    def identity(self, listed, partitions) -> tuple:
        """Rows of two lists with equal identities are one row."""
        kept = {name: e for name, e in self.measures.items() if e not in OF_THE_WINDOW}
        return listed.key, listed.match.pairs, tuple(self.row(listed, partitions[listed.key], len(listed.match.pairs), kept).items())

    def row(self, listed, rows, seen, wanted=None) -> dict:
        """The measures of a row of the answer."""
        size = self.window[1] if self.window else 0
        own = {
            ("match score",): listed.score,
            ("match rank",): listed.rank,
            ("window start",): listed.window,
            ("window end",): None if listed.window is None else listed.window + size,
            ("change",): listed.change,
        }
        number = listed.match.number if self.top is None else listed.rank
        wanted = self.measures if wanted is None else wanted
        return {name: own[e] if e in own else self.value(e, rows, listed.match.pairs, seen, number) for name, e in wanted.items()}

    def answers(self, partitions) -> dict:
        """Rows of the answer by partition, as {measure: value} (ALL ROWS: and the id)."""
        out = {key: [] for key in partitions}
        if self.top is not None:
            listed = self.ranked(partitions)
        else:
            listed = [Listed(key, m, self.score(rows, m.pairs), 0) for key, rows in partitions.items() for m in self.find(rows)]
        for one in listed:
            rows = partitions[one.key]
            if self.mode == measures.ONE_ROW or not one.match.pairs:
                found = {} if self.mode == measures.ONE_ROW else {"id": rows[one.match.start]["id"]}
                out[one.key].append(self.row(one, rows, len(one.match.pairs)) | found)
                continue
            for i, (row, _) in enumerate(one.match.pairs):
                out[one.key].append(self.row(one, rows, i + 1) | {"id": rows[row]["id"]})
        return out


def signed(objective, value):
    return -value if objective.goal == MIN and value is not None else value


def merged(values, combine, weights=None):
    """COMBINE BY over the values that count, in their order."""
    if not values or any(value is None for value in values):
        return None
    if weights is not None:
        values = [value if weight == 1 else weight * value for value, weight in zip(values, weights, strict=True)]
    if combine in (MIN, MAX):
        return (min if combine == MIN else max)(values)
    whole = values[0]
    for value in values[1:]:
        whole = whole * value if combine == PRODUCT else whole + value
    if combine != AVG or (len(values) == 1 and weights is None):
        return whole
    return (float(whole) if isinstance(whole, int) else whole) / (sum(weights) if weights is not None else len(values))


# --- objectives of branches -----------------------------------------------------------------------------------------


def strict(e) -> set:
    """The variables and sequences whose absence makes an expression NULL."""
    if e[0] == "nav":
        return {e[2]} - {None}
    if e[0] == "agg":
        return set() if e[1] == "count" else {e[2]} - {None}
    if e[0] == "score":
        return {e[1]}
    if e[0] in ("+", "-", "*", "sqrt", "=", "<>", "<", "<=", ">", ">="):
        return set().union(*map(strict, e[1:]))
    return set()


def branches(p) -> Iterator[tuple]:
    """The branches of all alternations of a pattern, outer ones first."""
    for part in pattern.children(p):
        if p[0] == "alt":
            yield part
        yield from branches(part)


def places(p) -> list:
    """The names of a pattern, each as often as it is written."""
    return [p[1]] if p[0] == "var" else [name for part in pattern.children(p) for name in places(part)]


def home(name, p) -> tuple | None:
    """The innermost branch that has all places of a name."""
    whole = places(p).count(name)
    found = [branch for branch in branches(p) if whole and places(branch).count(name) == whole]
    return found[-1] if found else None


def homes(names, written, pattern_, sequences) -> list:
    """For each branch to which an objective belongs the variables that only it has."""
    alone = []
    for name in sorted(names):
        of_sequence = any(s.name == name for s in sequences)
        p = written if of_sequence else pattern_
        branch = home(name, p)
        if branch is not None:
            inside = [n for n in dict.fromkeys(places(branch)) if places(branch).count(n) == places(p).count(n)]
            alone.append({v for n in inside for v in next((s.variables for s in sequences if s.name == n), [n])})
    return alone


def counts(names, written, pattern_, sequences, pairs) -> bool:
    """Does an objective that is strict in ``names`` count in a match?"""
    taken = {variable for _, variable in pairs}
    return all(taken & alone for alone in homes(names, written, pattern_, sequences))


# --- text -------------------------------------------------------------------------------------------------------------


def text(e) -> str:
    """SQL text of a measure or an objective."""
    if e in RANKING_MEASURES:
        return RANKING_MEASURES[e]
    if e[0] == "score":
        return f"MATCH_SCORE({e[1]})"
    if e[0] == "sqrt":
        return f"sqrt({text(e[1])})"
    return f"({text(e[1])} {e[0]} {text(e[2])})" if e[0] in ("+", "-", "*") and _own(e) else expr.to_sql(e)


def _own(e) -> bool:
    return isinstance(e, tuple) and (e == MATCH_ERRORS or e[0] in ("score", "sqrt") or any(map(_own, e[1:])))


def _objectives(objectives, combine) -> str:
    named = [f"{o.goal} ({text(o.e)})" + (f" AS {o.name}" if o.name else "") for o in objectives]
    return " AND ".join(named) + f" COMBINE BY {combine}"
