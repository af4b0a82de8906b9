"""Random clauses with TOP k over any pattern and event selection, their partitions, and the rows that the oracle expects.

The rows have the columns of :mod:`tests.property.topk.named_sequence_cases` and ``x``, a number of any type for preferences.
A partition key may be NULL, and so may times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from tests.cases.in_process import Database
from tests.oracle import expr, measures, pattern, selection
from tests.oracle.named_sequences import AVG, MAX, MIN, PRODUCT, SUM, Objective, Preference, Ranked, places
from tests.oracle.selection import FIRST
from tests.property.random_cases import Case
from tests.property.topk.named_sequence_cases import MERGES, answered_case, refused

LONGEST = 8  # rows of a partition, less one
BUDGET = 30_000  # steps of the oracle for one partition
SHAPES = ("plain", "plain", "plain", "nested", "negation", "conjunction", "group", "sided group")
COLUMNS = ("p", "id", "t", "v", "w", "s", "x")
INT, BIGINT, DOUBLE, FLOAT, DECIMAL = "INT", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(10,2)"


@dataclass
class Chosen(Ranked):
    """A ranking of whole matches.

    ``kind``: the type of ``x``; ``large``, ``odd``: which numbers it has; ``placed``: where NULLs of t are, if the clause says it.
    """

    kind: str = INT
    large: bool = False
    odd: bool = False
    placed: str = ""

    def to_sql(self) -> str:
        order = f"ORDER BY t{' DESC' * self.descending}"
        return super().to_sql().replace(order, order + self.placed, 1)

    def score(self, rows, pairs):
        """The score; NaN ranks like NULL, and is shown like it."""
        found = super().score(rows, pairs)
        return None if found is None or found != found else found


def random_case(rng, random_query=None, **wanted) -> Case:
    """``wanted``: fields of the query that are to be as given."""
    return answered_case(rng, lambda: (random_query or random_choice)(rng, **wanted), random_partition)


def random_partition(rng, query) -> list[dict]:
    rows = expr.random_rows(rng, rng.randrange(LONGEST))
    timeless = min(len(rows), rng.choice([1, 1, 2])) if rng.random() < 0.15 else 0
    at, times = rng.randrange(-3, 12), []
    for _ in rows[timeless:]:
        times.append(at)
        at += rng.choice([0, 1, 1, 1, 2, 4]) * (-1 if query.descending else 1)
    gone = [None] * timeless
    # as Spark orders NULLs, or the other way
    times = times + gone if query.descending != bool(query.placed) else gone + times
    nulls, nans = rng.random() < 0.3, query.odd and rng.random() < 0.5
    numbers = [random_number(rng, query, nulls, nans) for _ in rows]
    return [{**row, "id": 2**i, "t": t, "x": x} for i, (row, t, x) in enumerate(zip(rows, times, numbers, strict=True))]


def random_number(rng, query, nulls, nans):
    if nulls and rng.random() < 0.2:
        return None
    if nans and rng.random() < 0.2:
        return rng.choice([math.nan, math.nan, -0.0])
    if query.large:
        return rng.choice([2**53, -(2**53), 2**56]) + rng.randrange(-2, 3)
    if query.kind in (DOUBLE, FLOAT):
        return rng.randrange(-4, 12) / 4
    if query.kind == DECIMAL:
        return Decimal(rng.randrange(-40, 120)).scaleb(rng.choice([-2, -1, 0]))
    return rng.randrange(-1, 6)


def random_choice(rng, **wanted) -> Chosen | None:
    """A random ranking of a clause of any kind. None: a clause that is refused."""
    base = selection.random_query(rng, shapes=SHAPES)
    positive = pattern.variables(taking(base.pattern))
    if not positive or (base.report == FIRST and selection._least(taking(base.pattern)) == 0):
        return None  # empty matches rank, too, but are in no window
    ambiguous = not _certain(base.pattern)
    kind = wanted.get("kind") or rng.choice([INT, INT, BIGINT, DOUBLE, DOUBLE, FLOAT, DECIMAL])
    query = Chosen(
        base.pattern, base.pattern_text, base.defines, base.strategy, base.report, None, base.window, subsets=base.subsets, budget=BUDGET,
        written=base.pattern, kind=kind, large=kind == BIGINT and rng.random() < 0.5, odd=kind in (DOUBLE, FLOAT) and rng.random() < 0.5,
    )  # fmt: skip
    ranked(rng, query, changes=not ambiguous)  # of equal rows either match is preferred (docs/decisions.md)
    query.preference = random_preference(rng, query, positive)
    if ambiguous:
        query.measures["ids"] = ("agg", "sum", None, ("col", "id"), False)
    else:
        query.measures |= {f"r_{v}": ("agg", "sum", v, ("col", "id"), False) for v in positive}
    for name, value in wanted.items():
        setattr(query, name, value)
    return None if refused(query) else query


def ranked(rng, query, *, changes: bool) -> None:
    """TOP k and SLIDE, perhaps REPORT CHANGES, the order and the rows of the output."""
    query.top, query.overall = rng.choice([1, 1, 2, 3, 10, 100]), rng.random() < 0.3
    if query.window is None and rng.random() < 0.3:
        query.window = ("rows", rng.randrange(2, 7))
    if query.window is not None and rng.random() < 0.6:
        query.slide = rng.randrange(1, query.window[1] + 1)
        query.changes = changes and rng.random() < 0.3
    query.mode = measures.SHOW_EMPTY if not query.changes and rng.random() < 0.15 else measures.ONE_ROW
    query.descending = not query.changes and rng.random() < 0.25
    if rng.random() < 0.1:
        query.placed = " NULLS FIRST" if query.descending else " NULLS LAST"
    query.measures = {"score": ("match score",), "n": ("agg", "count", None, "*", False)}
    if not (query.changes and rng.random() < 0.5):
        query.measures |= {"m_no": ("match_number",), "rank": ("match rank",)}
    if query.slide is not None:
        query.measures |= {"begins": ("window start",), "ends": ("window end",)}
    if query.changes:
        query.measures["change"] = ("change",)


def _certain(p) -> bool:
    """Whether the rows and variables of a match show how the pattern made it."""
    names = places(p)
    return len(set(names)) == len(names) and not any(pattern.contains(inner, ("rep",)) for inner in _repeated(p)) and not pattern.contains(p, ("permute",))


def _repeated(p) -> list:
    return ([p[1]] if p[0] == "rep" else []) + [inner for part in pattern.children(p) for inner in _repeated(part)]


def taking(p) -> tuple:
    """The pattern without its negations."""
    if p[0] in ("cat", "alt", "and", "permute"):
        return (p[0], [taking(part) for part in p[1]])
    return ("empty",) if p[0] == "neg" else (p[0], taking(p[1]), *p[2:]) if p[0] in ("rep", "within") else p


def random_preference(rng, query, positive) -> Preference:
    # DuckDB divides a FLOAT as a FLOAT
    merges = [SUM] if query.kind == FLOAT and query.odd else [SUM, MIN, MAX, PRODUCT] if query.kind == FLOAT else [SUM, SUM, AVG] if query.large or query.odd else MERGES
    combine, found = rng.choice(merges), []
    for _ in range(rng.choice([1, 1, 2, 3])):
        e = random_objective(rng, query, positive)
        if rng.random() < 0.45:
            e = (rng.choice("++-" if query.large else "++-*"), e, random_objective(rng, query, positive))
        found.append(Objective(MAX if combine == PRODUCT else rng.choice([MAX, MAX, MIN]), e))
    return Preference(tuple(found), (), combine)


def random_objective(rng, query, positive) -> tuple:
    sided = pattern.contains(query.pattern, ("and",))
    over = rng.choice([*positive, *positive, *([] if pattern.contains(query.pattern, ("alt",)) else query.subsets), None])
    column = ("col", rng.choice("xxxxvw"))
    roll = rng.random()
    if roll < 0.35:
        return ("nav", rng.choice(["FIRST", "LAST", "LAST"]), over, rng.choice([0, 0, 0, 0, 1]), column)
    if roll < 0.6:
        keep = [("<", ("col", "v"), ("lit", 3))] if rng.random() < 0.1 else []
        return ("agg", "sum", over, column, False, *keep)
    if roll < 0.7:
        return ("agg", "count", over, rng.choice(["*", column]), False)
    if roll < 0.77:
        return ("-", ("nav", "LAST", None, 0, ("col", "t")), ("nav", "FIRST", None, 0, ("col", "t")))
    if roll < 0.84 and not sided:
        label = ("=", rng.choice([("classifier", None), ("nav", "FIRST", None, 0, ("classifier", None))]), ("lit", rng.choice(positive)))
        return ("if", label, ("nav", "LAST", over, 0, ("col", "v")), ("lit", rng.randrange(3)))
    if query.large or query.odd:
        return ("agg", "sum", over, column, False)
    if roll < 0.93:
        keep = [("<", ("col", "v"), ("lit", 3))] if rng.random() < 0.2 else []
        return ("agg", rng.choice(["min", "max", "count", "avg"] if query.kind != DECIMAL else ["min", "max"]), over, column, False, *keep)
    return (rng.choice(["prev", "next"]), rng.choice([1, 2]), ("nav", rng.choice(["FIRST", "LAST"]), over, 0, column))


def engine(query, chunk_rows: int | None = None):
    """The function that runs clauses over rows like those of ``query``, in batches of ``chunk_rows``."""
    return partial(_answers, kind=query.kind, chunk_rows=chunk_rows)


def _answers(clause: str, partitions: dict, kind: str, chunk_rows: int | None) -> dict:
    found: dict = {p: [] for p in partitions}
    if not any(partitions.values()):
        return found
    database = Database()
    try:
        rows = [{"p": p, **row} for p, some in partitions.items() for row in some]
        columns = f"p INT, id INT, t INT, v INT, w INT, s STRING, x {kind}"
        database.insert("t", columns, [{column: row[column] for column in COLUMNS} for row in rows])
        names, table = database.table(f"SELECT * FROM t MATCH_RECOGNIZE (\n{clause}\n)", chunk_rows)
    finally:
        database.close()
    for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        row = {name: None if value != value else value for name, value in zip(names, values, strict=True)}
        found[row["p"]].append({name: value for name, value in row.items() if name == "id" or name not in COLUMNS})
    return found
