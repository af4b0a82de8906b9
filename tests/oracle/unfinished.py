"""Unfinished matches (SHOW UNFINISHED MATCHES) by plain depth-first enumeration of the runs of each start row.

The matches are those of :mod:`tests.oracle.selection`, whose rules for taking rows hold here, too. A run is a path of that
module and the rest of the pattern. Nothing is remembered between runs.

Where the text leaves something open, this is how it is read:

 1. A run is one derivation: the runs of `A B | A C` after an A are two. Of runs that are equal in status, depth, rows needed and
    pairs, MATCH_EXPECTED() lists the variables of all: [B, C] there, and after the A of PERMUTE(A, B, C), too.
 2. MATCH_EXPECTED() is of the pattern: closed and forbidden ways are listed.
 3. The match's end is a way on if a negation or `$` precedes it. Any next row inside WINDOW closes the way through `$` for
    good, under every strategy: if no other way is left, that row breaks the run.
 4. A negation before a match's first row, and one whose condition waits for rows, break nothing. A complete run that fails by
    such a negation and has nothing left to wait for never ends, so it is not reported.
 5. A way that a negation forbade cannot be taken later. Under SKIP TILL NEXT a row that may not be passed over breaks the run if
    only forbidden ways accept it.
 6. A row without a time lies outside of all intervals and closes nothing. It breaks a run only on a way without intervals.
 7. WITH UNMATCHED ROWS and SHOW TIMEOUT MATCHES: rows of a run that is not reported are unmatched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import expr, measures, pattern
from .selection import ANY, NEXT, STRICT, Query, _Between, _forms, _named, _resume, _Search, _taken

MATCHED, TIMED_OUT, BROKEN, OPEN = "MATCHED", "TIMED OUT", "BROKEN", "OPEN"
UNFINISHED, TIMEOUT = "UNFINISHED", "TIMEOUT"

# Measures of their own, only as whole measures.
OWN_MEASURES = {("status",): "MATCH_STATUS()", ("ended at",): "MATCH_ENDED_AT()", ("expected",): "MATCH_EXPECTED()"}

END = ("end",)


class Placed(str):
    """A variable at one place of PATTERN; ``depth``: the fewest rows a way from the beginning needs to take it."""

    depth: int


def placed(p, before=0):
    """The pattern with a :class:`Placed` for each variable that takes rows, ``before``: the fewest rows before it."""
    kind = p[0]
    if kind == "var":
        variable = Placed(p[1])
        variable.depth = before + 1
        return ("var", variable)
    if kind == "cat":
        parts = []
        for part in p[1]:
            parts.append(placed(part, before))
            before += fewest(part)
        return ("cat", parts)
    if kind in ("alt", "permute"):
        return (kind, [placed(part, before) for part in p[1]])
    if kind in ("rep", "excl", "within"):
        return (kind, placed(p[1], before), *p[2:])
    return p


def fewest(p) -> int:
    """How many rows a pattern takes at least."""
    if p[0] == "var":
        return 1
    if p[0] in ("neg", "empty", "start", "end"):
        return 0
    if p[0] == "rep":
        return p[2] * fewest(p[1])
    if p[0] == "alt":
        return min(map(fewest, p[1]))
    return sum(map(fewest, pattern.children(p)))


def needed(left) -> int:
    """How many rows the pattern needs at least after a run."""
    rows = 0
    for form in _forms(left):
        if form[0] == "loop":
            rows += max(0, form[1][2] - form[2]) * fewest(form[1][1])
        elif form[0] not in ("close", "unexclude"):
            rows += fewest(form)
    return rows


@dataclass(frozen=True)
class Ended:
    """A run that ended."""

    path: tuple
    status: str
    ended_at: object
    expected: tuple
    needed: int

    @property
    def pairs(self) -> tuple:
        return tuple((row, str(variable)) for _, row, variable, _ in _taken(self.path))

    @property
    def got(self) -> tuple:
        """The greater, the farther."""
        return max(item[2].depth for item in _taken(self.path)), -self.needed, len(self.pairs)


@dataclass(frozen=True)
class Entry:
    """One match or unfinished run of the result; ``number`` is None for a run."""

    start: int
    pairs: tuple
    excluded: tuple
    number: int | None
    status: str
    ended_at: object
    expected: tuple = ()

    @property
    def last(self) -> int:
        return self.pairs[-1][0] if self.pairs else self.start


@dataclass
class _Way:
    """A way on. ``variable`` None: the match's end. ``time``: the moment that closes it; ``row``: the first row outside of its
    windows of rows; ``gone``: the row that forbade it."""

    variable: str | None
    passed: tuple
    rest: tuple | None
    time: object = None
    row: int | None = None
    gone: int | None = None


@dataclass
class Unfinished(Query):
    """A query over rows with the columns p (partition), t and id (order: t, then id), v, w, s; id is the position.

    show: UNFINISHED, TIMEOUT or None; as_of: AS OF; latest: the latest t of the whole input (the earliest, if descending).
    """

    show: str | None = UNFINISHED
    as_of: int | None = None
    descending: bool = False

    time = "t"

    def to_sql(self) -> str:
        wanted = ", ".join(f"{OWN_MEASURES.get(e) or expr.to_sql(e)} AS {name}" for name, e in self.measures.items())
        text = super(Unfinished, replace(self, measures={})).to_sql()
        text = text.replace("ORDER BY id\n", f"ORDER BY t{' DESC' * self.descending}, id\nMEASURES {wanted}\n", 1)
        if self.show is None:
            return text
        clock = "" if self.as_of is None else f" AS OF {self.as_of}"
        rows = next(line for line in text.splitlines() if " PER MATCH" in line)
        return text.replace(rows, f"{rows} SHOW {self.show} MATCHES{clock}", 1)

    def clock(self, rows, latest=None):
        """The clock at the end of a partition."""
        times = [row["t"] for row in rows if row["t"] is not None]
        times += [time for time in [latest if self.as_of is None else self.as_of] if time is not None]
        return (min if self.descending else max)(times, default=None)

    def entries(self, rows, latest=None) -> list[Entry]:
        """Matches and unfinished runs of one ordered partition, by first row: what SHOW shows."""
        found, _ = self._search(rows, self.clock(rows, latest))
        if self.show is None:
            return [entry for entry in found if entry.status == MATCHED]
        if self.show == TIMEOUT:
            return [entry for entry in found if entry.status in (MATCHED, TIMED_OUT)]
        return found

    def told(self, rows, watermark) -> list[Entry]:
        """Law 3: what a stream has emitted of one key when the watermark is at ``watermark``."""
        below = [row for row in rows if row["t"] is not None and row["t"] < watermark]
        found, undecided = self._search(below, watermark)
        told = [entry for entry in found if undecided is None or entry.start < undecided]
        return [entry for entry in told if entry.status in ((MATCHED, TIMED_OUT) if self.show == TIMEOUT else (MATCHED, TIMED_OUT, BROKEN))]

    def _search(self, rows, clock):
        """(entries, the first undecided start row or None)"""
        search = _Runs(self, rows, clock)
        skip = self.skip or ("past last row",)
        found, undecided, number, start, hidden = [], None, 0, 0, -1
        while start < len(rows):
            ended, is_open, match = [], False, None
            for event, what in search.events((search.pattern, None), (), start, number + 1):
                if event == "ended":
                    ended.append(what)
                    is_open = is_open or what.status == OPEN
                elif event == "open":
                    is_open = True
                else:
                    match = what
                    break
            if is_open and undecided is None:
                undecided = start
            if match is not None:
                number += 1
                found.append(search.matched(match, start, number))
                start = _resume(found[-1], skip, self.subsets)
                continue
            if ended and (skip[0] == "to next row" or start > hidden):
                found.append(_farthest(start, ended))
                hidden = max(hidden, found[-1].last)
            start += 1
        return found, undecided

    def output(self, rows, latest=None) -> list:
        """Rows as (position of the input row or None for ONE ROW, {measure: value})."""
        entries = self.entries(rows, latest)
        keyed = []
        for place, entry in enumerate(entries):
            labels = tuple(variable for _, variable in entry.pairs)
            positions = tuple(row for row, _ in entry.pairs)
            context = expr.Context(rows, entry.start, labels, entry.number, self.subsets, positions)
            if self.mode == measures.ONE_ROW:
                keyed.append((entry.start, place, None, self._row(entry, context, len(labels))))
            elif not labels:
                if self.mode != measures.OMIT_EMPTY:
                    keyed.append((entry.start, place, entry.start, self._row(entry, context, 0)))
            else:
                shown = [i for i, is_hidden in enumerate(entry.excluded) if not is_hidden]
                keyed += [(entry.start, place, positions[i], self._row(entry, context, i + 1)) for i in shown]
        if self.mode == measures.WITH_UNMATCHED:
            taken = {row for entry in entries for row, _ in entry.pairs} | {entry.start for entry in entries}
            keyed += [(row, -1, row, dict.fromkeys(self.measures)) for row in range(len(rows)) if row not in taken]
        keyed.sort(key=lambda k: k[:2])
        return [(row, values) for *_, row, values in keyed]

    def _row(self, entry, context, seen):
        own = {("status",): entry.status, ("ended at",): entry.ended_at, ("expected",): list(entry.expected)}
        return {name: own[e] if e in own else expr.evaluate(e, context, seen) for name, e in self.measures.items()}


def _farthest(start, ended) -> Entry:
    """Rule 2: of the open runs, or else of all, the farthest."""
    ended = [run for run in ended if run.status == OPEN] or ended
    best = max(ended, key=lambda run: run.got)  # the first of equals
    equal = [run for run in ended if (run.got, run.pairs, run.status) == (best.got, best.pairs, best.status)]
    expected = tuple(dict.fromkeys(variable for run in equal for variable in run.expected))
    excluded = tuple(item[3] for item in _taken(best.path))
    return Entry(start, best.pairs, excluded, None, best.status, best.ended_at, expected)


class _Runs(_Search):
    """The runs of a partition. ``clock``: that at its end."""

    def __init__(self, query, rows, clock):
        super().__init__(query, rows)
        self.clock = clock
        self.pattern = placed(query.pattern)
        self.through_ends = False  # whether options() goes on through `$` before the partition's end

    # --- time

    def reached(self, time, at) -> bool:
        """Is a moment at or after another?"""
        return time is not None and at is not None and (time <= at if self.query.descending else time >= at)

    def limit(self, first, size):
        begin = self.rows[first]["t"]
        return None if begin is None else begin - size if self.query.descending else begin + size

    def earliest(self, moments):
        return (max if self.query.descending else min)((m for m in moments if m is not None), default=None)

    def latest(self, moments):
        return (min if self.query.descending else max)((m for m in moments if m is not None), default=None)

    def closed(self, way, row) -> bool:
        """Is a way closed when ``row`` has come?"""
        return self.reached(self.rows[row]["t"], way.time) or (way.row is not None and row >= way.row)

    def moment(self, way):
        """When a closed way closed."""
        outside = self.rows[way.row]["t"] if way.row is not None and way.row < len(self.rows) else None
        return self.earliest([way.time, outside])

    # --- runs

    def options(self, left, taken, here, passed=()):
        if self.through_ends and left is not None and left[0] == END:
            yield from self.options(left[1], taken, here, (*passed, END))
        else:
            yield from super().options(left, taken, here, passed)

    def ways_on(self, left, taken) -> list[_Way]:
        here = taken[-1][1] + 1
        self.through_ends = here < len(self.rows)
        try:
            options = list(self.options(left, len(taken), here))
        finally:
            self.through_ends = False
        ways = []
        for kind, what, passed, rest in options:
            if (kind == "end" and not passed) or (kind == "take" and END in passed):
                continue  # a match that failed; a row after the last one
            way = _Way(what, passed, rest)
            windows = [(taken[0][1], self.query.window)]
            if kind == "take":
                groups = [form for form in _forms(rest) if form[0] == "close" and form[2] < len(taken)]
                windows += [(taken[first][1], ("rows" if isinstance(size, pattern.Rows) else "range", size)) for _, size, first in groups]
            windows = [(first, window) for first, window in windows if window is not None]
            way.time = self.earliest([self.limit(first, size) for first, (unit, size) in windows if unit == "range"])
            way.row = min((first + size for first, (unit, size) in windows if unit == "rows"), default=None)
            ways.append(way)
        return ways

    def fate(self, ways, left, path, start, number):
        """(status or None for a run that takes a row, when it ended). Notes in each way the row that forbade it."""
        taken = _taken(path)
        following = taken[-1][1] + 1
        options = list(self.options(left, len(taken), following))
        blocking = self.blocking(left, options, taken, following)
        for row in range(following, len(self.rows)):
            remaining = [way for way in ways if way.gone is None]
            if remaining and all(self.closed(way, row) for way in remaining):
                return TIMED_OUT, self.latest(map(self.moment, remaining))
            going = [way for way in remaining if not self.closed(way, row)]
            if self.outside_of_time(going, row):
                continue
            takes = [way for way in going if way.variable is not None and self.accepts(way.variable, row, path, way.rest, number)]
            if self.query.strategy == STRICT:
                return (None, None) if takes else (BROKEN, self.rows[row]["t"])
            if self.query.strategy == NEXT and any(self.accepts(variable, row, path, rest, number) for variable, rest in blocking):
                return (None, None) if takes else (BROKEN, self.rows[row]["t"])
            for way in going:
                if self.forbids(way, row, path, number):
                    way.gone = row
            if going and all(way.gone is not None for way in going):
                return BROKEN, self.rows[row]["t"]
        remaining = [way for way in ways if way.gone is None]
        if not remaining:
            return None, None
        last = len(self.rows) - 1
        if all(self.closed(way, last) or self.reached(self.clock, way.time) for way in remaining):
            return TIMED_OUT, self.latest(map(self.moment, remaining))
        return OPEN, None

    def outside_of_time(self, going, row) -> bool:
        """A row without a time, where all ways on lie in intervals."""
        return self.rows[row]["t"] is None and all(way.time is not None for way in going)

    def forbids(self, way, row, path, number) -> bool:
        """Does a row that is passed over forbid a way at once?"""
        if END in way.passed:
            return True
        taken = _taken(path)
        pairs = [(item[1], item[2]) for item in taken]
        to_come = set(variables_to_come(way))
        for negation in way.passed:
            inner = negation[1]
            group = isinstance(inner, tuple)
            own = set(pattern.variables(negation))
            named = set()
            for variable in own:
                named |= _named(self.query.defines.get(variable, ("lit", True)))
            members = {member for name in named - {None} for member in self.query.subsets.get(name, (name,))}
            if to_come and None in named or to_come & (members - own):
                continue
            among = range(taken[-1][1] + 1, row + 1)
            if group:
                between = _Between(self, inner, among, pairs)
                there = between.found(number)
                self.left = between.left
            else:
                there = self.holds_finally(inner, row, pairs, number)
            if there:
                return True
        return False

    def events(self, left, path, start, number) -> Iterator[tuple]:
        """("match", path), ("ended", Ended) and ("open", None) in order of preferment; the latter if the run could take a row
        after the last one."""
        self.step()
        taken = _taken(path)
        here = taken[-1][1] + 1 if taken else start
        options = list(self.options(left, len(taken), here))
        blocking = self.blocking(left, options, taken, here)
        ways, status, ended_at = [], None, None
        if taken:
            ways = self.ways_on(left, taken)
            status, ended_at = self.fate(ways, left, path, start, number)
        turn = []
        for kind, what, passed, rest in options:
            if kind == "take":
                turn.append((what, passed, rest))
                continue
            yield from self.taking(turn, ways, status, blocking, path, start, number)
            turn = []
            if self.finished(path + passed, number):
                if any(way.variable is None and way.passed == passed and not self.shut(way) for way in ways):
                    yield "open", None
                yield "match", path + passed
        yield from self.taking(turn, ways, status, blocking, path, start, number)
        if status is not None:
            expected = tuple(dict.fromkeys(str(way.variable) for way in ways if way.variable is not None))
            yield "ended", Ended(path, status, ended_at, expected, needed(left))

    def shut(self, way) -> bool:
        """Is a way closed or forbidden at the partition's end?"""
        return way.gone is not None or self.closed(way, len(self.rows) - 1) or self.reached(self.clock, way.time)

    def taking(self, turn, ways, status, blocking, path, start, number):
        """The events of the runs that take a row by the ways of ``turn``, and whether they may take a further one."""
        if not turn:
            return
        candidates = [row for row, _ in self.candidates(blocking, path, start, False, number)]
        mine = [next((w for w in ways if (w.variable, w.passed, w.rest) == way), None) for way in turn]
        if self.query.strategy == ANY:
            groups = [([way], [own]) for way, own in zip(turn, mine, strict=True)]
        else:
            groups = [(turn, mine)]
        for some, owns in groups:
            for row in candidates:
                for (what, passed, rest), own in zip(some, owns, strict=True):
                    if own is not None and own.gone is not None and own.gone < row:
                        continue
                    if self.accepts(what, row, path, rest, number):
                        item = ("row", row, what, any(form == ("unexclude",) for form in _forms(rest)))
                        yield from self.events(rest, path + passed + (item,), start, number)
            if status == OPEN and any(own is not None and not self.shut(own) for own in owns):
                yield "open", None

    def matched(self, path, start, number) -> Entry:
        taken = _taken(path)
        ended_at = None
        if taken:
            ended_at = self.rows[taken[-1][1]]["t"]
            window = self.query.window
            if path[-1][0] == "neg" and window is not None and window[0] == "range":
                ended_at = self.limit(taken[0][1], window[1])
        pairs = tuple((item[1], str(item[2])) for item in taken)
        return Entry(start, pairs, tuple(item[3] for item in taken), number, MATCHED, ended_at)


def variables_to_come(way) -> list:
    """The variables that may still take rows on a way."""
    found = [] if way.variable is None else [way.variable]
    for form in _forms(way.rest):
        p = form[1] if form[0] == "loop" else form
        if form[0] not in ("close", "unexclude", "neg"):
            found += _positive(p)
    return found


def _positive(p) -> list:
    if p[0] == "var":
        return [p[1]]
    return [] if p[0] == "neg" else [v for child in pattern.children(p) for v in _positive(child)]
