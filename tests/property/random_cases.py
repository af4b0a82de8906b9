"""Random clauses with the rows that an oracle expects. The command counts them and compares a function that runs clauses.

The modules of random clauses use it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from tests.cases.in_process import Database

COLUMNS = "p INT, id INT, t INT, v INT, w INT, s STRING"


@dataclass
class Case:
    """A clause, its rows by partition, and the rows of the result by partition, each {measure: value} (ALL ROWS: and the id).

    query: the clause in the oracle's terms; failing: partitions that raise an error of AFTER MATCH SKIP.
    """

    query: object
    partitions: dict[int, list[dict]]
    expected: dict[int, list[dict]] = field(default_factory=dict)
    failing: dict[int, list[dict]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.query.to_sql()


def by_the_engine(text: str, partitions: dict[int, list[dict]]) -> dict[int, list[dict]]:
    """The output rows of a clause by partition, each {measure: value} (ALL ROWS: and the id), by the engine and DuckDB."""
    if not any(partitions.values()):
        return {}
    database = Database()
    try:
        columns = [column.split()[0] for column in COLUMNS.split(", ")]
        rows = [{"p": p, **row} for p, some in partitions.items() for row in some]
        database.insert("t", COLUMNS, [{column: row[column] for column in columns} for row in rows])
        names, table = database.table(f"SELECT * FROM t MATCH_RECOGNIZE (\n{text}\n)")
    finally:
        database.close()
    found: dict[int, list[dict]] = {p: [] for p in partitions}
    for values in zip(*(column.to_pylist() for column in table.columns), strict=True):
        row = dict(zip(names, values, strict=True))
        found[row["p"]].append({name: value for name, value in row.items() if name not in ("p", "t", "v", "w", "s")})
    return found


def comparable(rows) -> list:
    """Rows as a multiset."""
    return sorted(sorted((name, str(_plain(value))) for name, value in row.items()) for row in rows)


def _plain(value):
    if isinstance(value, (float, Decimal)):
        return int(value) if value == int(value) else round(float(value), 9)
    if isinstance(value, str) and value.startswith("["):
        return json.loads(value)
    return value


def difference(case, run: Callable) -> str | None:
    """How the rows of ``run(text, partitions)`` differ from those expected; None if they do not."""
    if case.failing:
        try:
            run(case.text, case.failing)
        except Exception as error:  # any error of the run; its text is looked at
            return None if "SKIP" in str(error) else f"{case.text}\nraised {error}"
        return f"{case.text}\nrows {case.failing}\nno error of AFTER MATCH SKIP"
    try:
        got = run(case.text, case.partitions)
    except Exception as error:  # a clause that is refused is a difference
        return f"{case.text}\npartitions {case.partitions}\nraised {type(error).__name__}: {error}"
    for p, expected in case.expected.items():
        if comparable(got.get(p, [])) != comparable(expected):
            return f"{case.text}\npartitions {case.partitions}\nin partition {p}\nexpected {expected}\nfound    {got.get(p, [])}"
    return None


def main(description: str, random_case: Callable, counted: Callable, argv=None) -> int:
    """``random_case(rng)`` gives a :class:`Case`; ``counted(case)`` the words under which a case is counted."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", action="store_true", help="compare the engine, in this process")
    parser.add_argument("--run", help="MODULE:FUNCTION to be compared: it gives the output rows by partition for (text, partitions)")
    parser.add_argument("--json", help="a file to write the cases to, one a line")
    parser.add_argument("--most", type=int, default=3, help="differences to print")
    asked = parser.parse_args(argv)
    module, _, name = (asked.run or "").partition(":")
    run = getattr(importlib.import_module(module), name) if module else by_the_engine if asked.engine else None
    counts: Counter = Counter()
    lines, differing = [], 0
    for i in range(asked.cases):
        case = random_case(random.Random(f"{asked.seed} {i}"))
        counts.update({"partitions": len(case.partitions), "with an error": len(case.failing)})
        counts.update(counted(case))
        if asked.json:
            lines.append(json.dumps({"text": case.text, "partitions": case.partitions, "expected": case.expected, "failing": case.failing}))
        found = None if run is None else difference(case, run)
        if found is not None:
            differing += 1
            if differing <= asked.most:
                print(f"--- case {i} of seed {asked.seed}\n{found}\n", flush=True)
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) + (f"; differ: {differing}" if run else ""))
    return min(differing, 1)
