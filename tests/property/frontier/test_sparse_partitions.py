"""Event selection against its oracle over long partitions of mostly noise, in orders with ties, NULLs and descending times.

The rows come in batches or little by little, and failures are remembered from the first step on.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace

import pytest

from sparkcep.engine.core import task
from tests.oracle import expr, measures, pattern, selection
from tests.property.frontier.test_selection_differential import comparable, hidden, wanted, with_rows
from tests.property.in_process import run
from tests.selection import first

# how the clause orders rows, and the time of a row with an id; {n} is one of the ids
ORDERS = {
    "id": lambda at, n: at,
    "id / 2, id": lambda at, n: at // 2,
    "id DESC": lambda at, n: at,
    "id / 3 DESC, id DESC": lambda at, n: at // 3,
    "CASE WHEN id < {n} THEN NULL ELSE id END, id": lambda at, n: None if at < n else at,
    "CASE WHEN id < {n} THEN id ELSE NULL END NULLS LAST, id": lambda at, n: at if at < n else None,
}
WAYS = [{"chunk_rows": 1}, {"chunk_rows": 3}, {"chunk_rows": 20}, {"cuts": True}, {"patience": 0}, {"patience": 0, "cuts": True}, {"patience": 0, "chunk_rows": 7}]
LIMITS = task.Limits


@dataclass
class Timed(selection.Query):
    """A query whose first ORDER BY expression gives ``t``."""

    order: str = "id"
    time = "t"

    def to_sql(self) -> str:
        return super().to_sql().replace("ORDER BY id", f"ORDER BY {self.order}", 1)


def timed(query: selection.Query, order: str, n: int) -> Timed:
    """The query in an order; ``n`` is for its text."""
    return Timed(**{name: getattr(query, name) for name in selection.Query.__dataclass_fields__}, order=order.format(n=n))


def rows_in(order: str, n: int, rows: list[dict]) -> list[dict]:
    """Rows of rising id in the order of the clause, with their times."""
    return [{**row, "t": ORDERS[order](row["id"], n)} for row in (reversed(rows) if "DESC" in order else rows)]


def sparse_rows(rng, size: int) -> list[dict]:
    """Rows with few of the letters a to c."""
    at, density, rows = rng.randrange(3), rng.choice([0.15, 0.25, 0.4]), []
    for row in expr.random_rows(rng, size):
        rows.append({**row, "id": at, "s": rng.choice("abc") if rng.random() < density else "x"})
        at += rng.choice([1, 1, 1, 1, 2, 3])
    return rows


def sparse_query(rng) -> selection.Query:
    """Steps by a letter each, some with conditions on the match, with negations, groups with windows, or as two sides."""
    names = list("ABCD"[: rng.choice([2, 3, 3, 4])])
    kind = rng.choice(["plain", "plain", "plain", "negation", "negation", "sides"])
    report = selection.ALL if kind == "sides" else rng.choice([selection.FIRST, selection.ALL])
    parts, defines = [step(rng, name, names) for name in names], {}
    if rng.random() < 0.1:
        parts = [("permute", parts[:3]), *parts[3:]]
    if rng.random() < 0.3:
        until = rng.randrange(1, len(parts) + 1)
        begin = rng.randrange(until)
        parts[begin:until] = [("within", ("cat", parts[begin:until]), rng.randrange(2, 15))]
    if kind == "negation":
        for name in rng.sample(["M", "N"], rng.choice([1, 1, 2])):
            defines[name] = letter(rng)
            if rng.random() < 0.5:
                defines[name] = ("and", letter(rng), (rng.choice(["<", ">="]), ("col", "v"), ("nav", "LAST", rng.choice(names), 0, ("col", "v"))))
            parts.insert(rng.randrange(len(parts) + 1), ("neg", name))
            if rng.random() < 0.3:
                defines["O" + name] = letter(rng)
                parts[parts.index(("neg", name))] = ("neg", ("cat", [("var", name), ("var", "O" + name)]))
    if kind == "sides":
        at = rng.randrange(1, max(len(parts), 2))
        sides = [("cat", side) for side in (parts[:at], parts[at:]) if side]
        apart = len(sides) == 2 and not set(pattern.variables(sides[0])) & set(pattern.variables(sides[1]))
        parts = [("and", sides if apart else [("var", "A"), ("var", "B")])]
    p = ("cat", parts)
    if kind == "plain" and rng.random() < 0.1:
        p = ("cat", rng.choice([[("start",), p], [p, ("end",)]]))
    positive = [name for name in names if name in pattern.variables(p)]
    defines |= {name: condition_of(rng, name, positive, report, kind) for name in positive}
    window = ("rows", rng.randrange(3, 25)) if rng.random() < 0.4 else ("range", rng.randrange(3, 40))
    skip = rng.choice([None, ("past last row",), ("to next row",)])
    if report == selection.FIRST and rng.random() < 0.2:
        skip = (rng.choice(["to first", "to last"]), rng.choice(positive))
    return selection.Query(
        p, pattern.to_text(p), defines, rng.choice([selection.NEXT, selection.ANY]), report, skip,
        window if kind != "plain" or rng.random() < 0.6 else None, rng.choice([measures.ONE_ROW, *selection._ROWS_TEXT]), {}, dict(selection.BASE_MEASURES), 60_000,
    )  # fmt: skip


def letter(rng) -> tuple:
    return ("=", ("col", "s"), ("lit", rng.choice("abc")))


def condition_of(rng, name, names, report, kind) -> tuple:
    """A letter, and often a condition beside it that the report and the pattern allow."""
    e = expr.random_condition(rng, name, names, rng.choice(["row", "prev", "history", "wider"]), (), 0) if rng.random() < 0.5 else None
    refused = e is None or (report == selection.ALL and selection._contains(e, "match_number")) or (kind != "plain" and selection._contains(e, "classifier"))
    return letter(rng) if refused or (kind == "sides" and selection._distinct(e)) else ("and", letter(rng), e)


def step(rng, name, names) -> tuple:
    part, roll = ("var", name), rng.random()
    if roll < 0.15:
        part = ("alt", [part, ("cat", [("var", other) for other in rng.choices(names, k=2)])])
    elif roll < 0.25:
        part = ("cat", [part, ("var", rng.choice(names))])
    bounds = rng.choice([(0, None), (1, None), (1, None), (0, 1), (2, 2), (1, 2), (2, 3), (2, None)])
    return ("rep", part, *bounds, rng.random() < 0.75) if rng.random() < 0.35 else part


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_sparse_partitions(seed, monkeypatch):
    rng, compared, matched = random.Random(f"sparse {seed}"), 0, 0
    while compared < 40:
        query, order, n = sparse_query(rng), rng.choice(list(ORDERS)), rng.randrange(1, 12)
        p = with_rows(rng, query.pattern) if rng.random() < 0.5 else query.pattern
        if query.mode in (measures.SHOW_EMPTY, measures.OMIT_EMPTY) and p[0] == "cat":
            p = hidden(rng, p) if not pattern.contains(p, ("and", "neg")) else p
        query = timed(replace(query, pattern=p, pattern_text=pattern.to_text(p)), order, n)
        partitions, expected = {}, {}
        for part in range(4):
            rows = rows_in(order, n, sparse_rows(rng, rng.randrange(5, 60)))
            try:
                expected[part] = comparable(query, wanted(query, rows))
                partitions[part] = rows
            except (selection.Budget, selection.SkipTargetError):
                continue
        if not any(expected.values()) and rng.random() < 0.9:
            continue  # mostly clauses that match something
        for way in [{}, rng.choice(WAYS)] if partitions else []:
            monkeypatch.setattr(task, "Limits", functools.partial(LIMITS, patience=way.get("patience", LIMITS.patience)))
            found = run(query.to_sql(), partitions, way.get("chunk_rows"), cuts=random.Random(seed) if "cuts" in way else None)
            for part, rows in partitions.items():
                assert comparable(query, found.get(part, [])) == expected[part], (query.to_sql(), way, rows)
                compared, matched = compared + 1, matched + bool(expected[part])
    assert matched > 4
