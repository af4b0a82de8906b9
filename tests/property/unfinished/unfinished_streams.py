"""Random clauses with SHOW UNFINISHED MATCHES over random streams, compared with the oracle at each watermark (law 3).

    python -m tests.property.unfinished.unfinished_streams --cases 1000 --seed 1

counts what was reported. A stream is cut into micro-batches at random, with rows in disorder and keys that fall silent. Between two
micro-batches the state of a key is bytes.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa

from sparkcep.errors import ClauseError
from sparkcep.plan.extend.unfinished import CLOCK
from tests.oracle.cases import BASE_MEASURES
from tests.oracle.match import SkipTargetError
from tests.oracle.selection import Budget
from tests.oracle.unfinished import BROKEN, MATCHED, TIMED_OUT, UNFINISHED
from tests.property.stream.streams import in_time, micro_batches, planned, timed
from tests.property.unfinished.unfinished_cases import OWN, random_partition, random_query

KEYS = 4


def streaming_query(rng: random.Random, **wanted):
    """A query and its text over a stream."""
    query = random_query(rng, descending=False, as_of=None, **wanted)
    query = replace(query, measures=BASE_MEASURES | OWN)
    text = in_time(query.to_sql().replace("ORDER BY t, id", "ORDER BY id"))
    return query, text if "PARTITION BY" in text else f"PARTITION BY p {text}"


def streaming_rows(rng: random.Random, query) -> dict[int, list[dict]]:
    """Rows of some keys. ``id`` is the time of a row, and times may tie."""
    found = {}
    for p in range(KEYS):
        rows = [row for row in random_partition(rng, query) if row["t"] is not None]
        for row in rows:
            row["t"] += 3  # a stream's first watermark is the epoch
            row["id"] = row["t"]
        found[p] = rows
    return found


def expected(query, rows: list[dict], watermark: int) -> list[dict]:
    """The output of one key when exactly the rows before ``watermark`` have come."""
    told = query.told(rows, watermark)
    _, undecided = query._search([row for row in rows if row["t"] < watermark], watermark)
    known = rows[: sum(row["t"] < watermark for row in rows) if undecided is None else undecided]
    query.entries = lambda rows, latest: told
    every = [(at, values) for at, values in query.output(rows) if at is None or at < len(known) or values["st"] is not None]
    return [values if at is None else {**values, "id": rows[at]["id"]} for at, values in every]


def expected_of_sessions(query, rows: list[dict], watermark: int, idle: int, ended: list[list[dict]]) -> list[dict]:
    """As :func:`expected`, of a key that is cut where its rows are ``idle`` apart. Open runs are dropped at a session's end.

    ``ended`` has the output of sessions that had ended before, and gets that of those that end now.
    """
    sessions: list[list[dict]] = []
    for row in rows:
        if row["t"] < watermark and (not sessions or row["t"] - sessions[-1][-1]["t"] >= idle):
            sessions.append([])
        if row["t"] < watermark:
            sessions[-1].append(row)
    for session in sessions[len(ended) :]:
        if session is sessions[-1] and session[-1]["t"] + idle > watermark:
            break
        told = [entry for entry in query._search(session, watermark)[0] if entry.status in (MATCHED, TIMED_OUT, *([BROKEN] if query.show == UNFINISHED else []))]
        query.entries = lambda rows, latest, told=told: told
        ended.append([values if at is None else {**values, "id": session[at]["id"]} for at, values in query.output(session)])
    going = [expected(query, session, watermark) for session in sessions[len(ended) :]]
    return [row for some in (*ended, *going) for row in some]


def reported(plan, tables: list[pa.Table]) -> dict[int, list[dict]]:
    """The rows of the output by key, with the names of the measures."""
    names = {name: text.strip("()") for name, text in plan.outputs}
    key = "__p0" if plan.rows == "one" else "p"
    found: dict[int, list[dict]] = {}
    for table in tables:
        columns = {name: table.column(text).to_pylist() for name, text in names.items() if text in table.column_names}
        assert set(columns) == set(names), (names, table.column_names)
        places = table.column("id").to_pylist() if plan.rows != "one" else [None] * table.num_rows
        for i, p in enumerate(table.column(key).to_pylist()):
            row = {name: values[i] for name, values in columns.items()}
            if row["st"] is None:  # the rewriter's guard: a row in no match has no measures
                row = dict.fromkeys(row)
            found.setdefault(p, []).append(row if plan.rows == "one" else {**row, "id": places[i]})
    return found


def comparable(rows: list[dict]) -> list:
    return [{name: value if name != "ended" or value is None or isinstance(value, int) else int(value.value) // 1000 if hasattr(value, "value") else round(value.timestamp() * 1e6) for name, value in row.items()} for row in rows]


def without_clock(text: str):
    """The plan of a statement over a stream, whose rows lack the clock: the watermark is the clock."""
    plan = planned(text)
    return replace(plan, inputs=tuple(column for column in plan.inputs if column.name != CLOCK))


def difference(query, text: str, rows: dict[int, list[dict]], rng: random.Random, counts: Counter, idle: int = 0) -> str | None:
    """How a stream differs from the definition; None if it does not. ``idle``: sparkcep.stream.idleTimeout."""
    plan = replace(without_clock(text), idle=idle)
    table = timed(plan, rows)
    if not table.num_rows:
        return None
    tables: list[pa.Table] = []
    ended: dict[int, list[list[dict]]] = {p: [] for p in rows}
    for watermark, _, more in micro_batches(plan, table, rng, rng.choice([0, 2, 5])):
        tables += more
        got = reported(plan, tables)
        for p, some in rows.items():
            own = expected_of_sessions(query, some, watermark + 1, idle, ended[p]) if idle else expected(query, some, watermark + 1)
            wanted = comparable(own)
            if comparable(got.get(p, [])) != wanted:
                return f"{text}\nidle {idle}, rows {some}\nat watermark {watermark} of key {p}\nexpected {wanted}\nfound    {comparable(got.get(p, []))}"
            counts["watermarks"] += 1
    counts["sessions"] += sum(map(len, ended.values()))
    counts.update(row["st"] for some in got.values() for row in some)
    return None


def compared(rng: random.Random, counts: Counter, idle: int = 0, **wanted) -> str | None:
    """Compares a random clause over a random stream. None without a difference."""
    query, text = streaming_query(rng, **wanted)
    rows = streaming_rows(rng, query)
    try:
        found = difference(query, text, rows, rng, counts, idle)
    except Budget:
        counts["too large for the oracle"] += 1
        return None
    except SkipTargetError:
        counts["an error of AFTER MATCH SKIP"] += 1
        return None
    except ClauseError as error:
        if error.error_class.startswith("SPARKCEP.SKIP_TO"):
            counts["an error of AFTER MATCH SKIP"] += 1
            return None
        counts[f"refused: {error.error_class}"] += 1
        return None if error.error_class == "SPARKCEP.STREAM" or "not supported yet" in str(error) else f"{text}\n{error}"
    counts["streams"] += 1
    return found


def counted(rng: random.Random) -> tuple[str, int]:
    """Compares a random clause. How many matches it has reported."""
    counts: Counter = Counter()
    assert compared(rng, counts) is None
    return "a clause of the definition's", counts["MATCHED"] + counts["TIMED OUT"] + counts["BROKEN"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--most", type=int, default=3, help="differences to print")
    asked = parser.parse_args()
    counts: Counter = Counter()
    for i in range(asked.cases):
        found = compared(random.Random(f"{asked.seed} {i}"), counts)
        if found is not None:
            counts["differ"] += 1
            if counts["differ"] <= asked.most:
                print(f"--- case {i} of seed {asked.seed}\n{found}\n", flush=True)
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items(), key=str)))
    return min(counts["differ"], 1)


if __name__ == "__main__":
    raise SystemExit(main())
