"""Fetches one partition of a clause's input, with the truth and the sides of each comparison.

One job finds the partition and its size, one fetches the rows. The rows are frozen: they get numbers in the order of their arrival,
and the trace and the engine see them in this order.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkcep.clause.parser import parse_key
from sparkcep.clause.tokens import QUOTED, WORD, name_of, outside, tokenize
from sparkcep.clause.tree import NEXT_ROW
from sparkcep.errors import SEMANTIC, ClauseError
from sparkcep.plan.extend.unfinished import CLOCK, clock_text
from sparkcep.plan.options import MICROS, NO_WINDOW, ROWS
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import walk
from sparkcep.plan.scope import RANDOM
from sparkcep.plan.split.conditions import ORDER
from sparkcep.spark.why.statement import Input
from sparkcep.sql.rewrite.rewrite import by_keys, letters_sql, text_of, window_of
from sparkcep.tracing.answers.values import Values
from sparkcep.tracing.conditions.question import ROW, WHY, Question
from sparkcep.tracing.rows.frozen import FrozenRows, shown_column
from sparkcep.tracing.rows.local_times import values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS = 20  # that ``at`` may select
_SHOWN_PARTITIONS = 3
_SLACK = 7_200_000_000  # microseconds: clocks change by less
_HITS, _SIZE, _ASKED = "__hits", "__size", "__asked"
Run = Callable[[str], "DataFrame"]


@dataclass(frozen=True)
class Located:
    """The partition that a question is about: its number of rows, how many are asked about, and whether only a part is fetched."""

    size: int
    hits: int
    in_part: bool = False


def check_expression(text: str, name: str = "at", what: str = "condition") -> None:
    """Raises ClauseError of class WHY if an argument is not one SQL expression, or is random."""
    try:
        parse_key(text, ordered=False)
    except ClauseError as error:
        raise ClauseError(WHY, f"{name}={text!r} is not one SQL {what}: {error.message}", sqlstate=error.sqlstate) from None
    tokens = tokenize(text)
    calls = (name_of(token) for token, after in zip(tokens, tokens[1:]) if token.kind in (WORD, QUOTED) and after.text == "(")
    random = next((name for name in calls if name.upper() in RANDOM), None)
    if random is not None:
        raise ClauseError(WHY, f"{name}={text!r} has {random}(), so it differs each time. Write {what}s over the columns", sqlstate=SEMANTIC)


def locate(run: Run, asked: Input, question: Question, at: str | None, rows: int, redact: str, *, whole: bool = False) -> Located | None:
    """Finds the partition of the rows that are asked about, by one job. ``whole``: all of its rows must be fetched.

    Returns:
        The partition, None if no row fulfils ``at``.

    Raises:
        ClauseError: the rows are of several partitions, or too many; the partition is too large.
    """
    plan = question.plan
    keys = [f"{text_of(plan, key.column)} AS {key.column}" for key in plan.partition]
    in_part = at is not None and not whole and may_be_part(question)
    hit = f"CAST(COALESCE({f'({at})' if at is not None else 'true'}, false) AS INT) AS {_HITS}"
    inner = f"SELECT {', '.join([*keys, hit])} FROM {asked.source}"
    names = [key.column for key in plan.partition]
    group = f" GROUP BY {', '.join(names)}" if names else ""
    counts = f"SELECT {', '.join([*names, f'sum({_HITS}) AS {_HITS}', f'count(*) AS {_SIZE}'])} FROM ({inner}){group} HAVING sum({_HITS}) > 0"
    table = run(f"{asked.names}SELECT * FROM ({counts}) ORDER BY {', '.join([f'{_HITS} DESC', *names])} LIMIT {_SHOWN_PARTITIONS}").toArrow()
    columns = [values_of(table[name], plan.zone) for name in table.column_names]
    found = [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    if not found:
        return None
    if len(found) > 1:
        partitions = len(found) if len(found) < _SHOWN_PARTITIONS else run(f"{asked.names}SELECT count(*) FROM ({counts})").collect()[0][0]
        raise _several(plan, found, partitions, at, redact)
    hits, size = int(found[0][_HITS]), int(found[0][_SIZE])
    if at is not None and hits > MOST_ROWS:
        raise ClauseError(WHY, f"at selects {hits:,} rows, and at most {MOST_ROWS} are explained. Add a condition, such as one on the ORDER BY key", sqlstate=SEMANTIC)
    if size > rows and not in_part:
        raise _too_large(size, rows)
    return Located(size, hits, size > rows)


def _too_large(size: int, rows: int, part: str = "") -> ClauseError:
    return ClauseError(WHY, f"The partition has {size:,} rows,{part} and rows is {rows:,}. Write rows={size}, or ask about a smaller partition", sqlstate=SEMANTIC)


def may_be_part(question: Question) -> bool:
    """Whether the rows within one WINDOW of a row decide everything about it.

    Each start row is searched, a match lies in a WINDOW, and no condition counts matches or looks for the partition's ends.
    """
    plan = question.plan
    strict = plan.selection is None or (plan.selection.strategy, plan.selection.report) == ("STRICT", "FIRST")
    exact = question.whole is None and plan.automaton is None and plan.changes is None
    bounded = bool(plan.windows) and plan.windows[0].kind != NO_WINDOW and plan.skip.mode == NEXT_ROW
    return strict and exact and bounded and not question.numbered and not any(part[0] in ("start", "end") for part in walk(plan.pattern))


def _several(plan: Plan, found: list[dict[str, Any]], partitions: int, at: str | None, redact: str) -> ClauseError:
    """The error for rows of several partitions. Under redaction it leaves the values of keys out."""
    values = Values()
    if redact:
        what = "at selects rows of" if at is not None else "The input has"
        instead = "Add a condition on" if at is not None else "Write at with a condition on the row and on"
        return ClauseError(WHY, f"{what} {partitions:,} partitions. {instead} {', '.join(key.name for key in plan.partition)}", sqlstate=SEMANTIC)

    def keys(row: dict[str, Any], named: bool) -> str:
        texts = [(key.name, literal(row[key.column], values.text(row[key.column]))) for key in plan.partition]
        return " AND ".join(f"{name} {'IS NULL' if text == 'NULL' and named else f'= {text}'}" if named else text for name, text in texts)

    listed = ", ".join(f"{keys(row, not i)}" + (f" ({row[_HITS]})" if at is not None else "") for i, row in enumerate(found))
    more = ", ..." if partitions > len(found) else ""
    only = keys(found[0], True)
    if at is None:
        return ClauseError(WHY, f'The input has {partitions:,} partitions: {listed}{more}. Write at="{only}" and a condition on the row', sqlstate=SEMANTIC)
    return ClauseError(WHY, f"at selects rows of {partitions:,} partitions: {listed}{more}. Add AND {only}", sqlstate=SEMANTIC)


def literal(value: Any, text: str) -> str:
    """A key in SQL. ``text``: the key as answers write it, which is SQL except for dates and times."""
    if isinstance(value, datetime.datetime):
        return f"{'TIMESTAMP_NTZ' if value.tzinfo is None else 'TIMESTAMP'}'{text}'"
    return f"DATE'{text}'" if isinstance(value, datetime.date) else text


def fetch(run: Run, asked: Input, question: Question, at: str | None, located: Located, rows: int, show: Sequence[str] = ()) -> tuple[FrozenRows, tuple[int, ...]]:
    """Fetches the partition of the rows that are asked about, by one job. Of a long one, the rows within one WINDOW.

    Returns:
        The frozen rows, and the rows that fulfil ``at``; none without a condition.

    Raises:
        ClauseError: the rows within one WINDOW are more than ``rows``.
    """
    plan = question.plan
    further = [f"({text}) AS {shown_column(i)}" for i, text in enumerate(show)]
    computed = [*row_columns(question, asked.source), *further, f"COALESCE({f'({at})' if at is not None else 'false'}, false) AS {_ASKED}"]
    source = asked.source
    if at is not None and plan.partition:
        source = joined(source, [text_of(plan, key.column) for key in plan.partition], f"WHERE ({at}) LIMIT 1")
    query = f"SELECT {', '.join(computed)} FROM {source}"
    found = run(asked.names + (_part(query, question, rows) if located.in_part else query)).toArrow()
    if located.in_part and found.num_rows > rows:
        raise _too_large(located.size, rows, f" those within one WINDOW are more than {rows:,},")
    table = found.take(pc.sort_indices(found[ROW])).combine_chunks()
    first = table[ROW][0].as_py() if located.in_part else 0
    table = table.set_column(table.column_names.index(ROW), ROW, pa.array(range(table.num_rows), pa.int64()))
    hits = tuple(first + i for i, hit in enumerate(table[_ASKED].to_pylist()) if hit)
    return FrozenRows(question, table.drop_columns([_ASKED]), first, located.size if located.in_part else None, tuple(show)), hits


def joined(source: str, keys: Sequence[str], choice: str) -> str:
    """A clause's input without the partitions that are not chosen, as SQL after FROM.

    Args:
        source: the input.
        keys: the keys of its partitions, as SQL.
        choice: the end of a query over the input that returns a row for each chosen partition.
    """
    named = ", ".join(f"{key} AS __of{i}" for i, key in enumerate(keys))
    chosen = f"(SELECT {named} FROM {source} {choice}) AS __chosen"
    equal = " AND ".join(f"{key} <=> __chosen.__of{i}" for i, key in enumerate(keys))
    tokens = tokenize(source)
    if any(tokens[i].upper == "LATERAL" and tokens[i + 1].upper == "VIEW" for i in outside(tokens)):  # no join may follow it
        return f"{chosen}, {source} WHERE {equal}"
    return f"{source} LEFT SEMI JOIN {chosen} ON {equal}"


def margin(question: Question) -> int:
    """How many rows before and after a part of a partition the engine may read, and one that shows where the part ends."""
    return 1 + max((abs(getattr(part, "physical", 0)) for _, tree in question.probes for part in walk(tree)), default=0)


def _part(query: str, question: Question, rows: int) -> str:
    """The rows of a query that lie within one WINDOW of the asked rows, and the neighbours that conditions read there."""
    window = question.plan.windows[0]
    if window.kind == ROWS:
        inside = f"{ROW} BETWEEN __from - {window.size} AND __to + {window.size}"
        bounds = ROW
    else:
        bounds, size = window.order, window.size
        if window.kind == MICROS:  # of dates and local times, days and clock times may be longer than they seem
            distance = f"timestampdiff(MICROSECOND, {{}}, {{}}) <= {size} + IF(typeof({window.order}) = 'timestamp', 0, {_SLACK})"
        else:
            distance = f"{{1}} - {{0}} <= {size}"
        inside = f"{distance.format(window.order, '__from')} AND {distance.format('__to', window.order)}"
    reach = margin(question)
    whole = f"({by_keys(key.column for key in question.plan.partition)})"  # the query reads one partition
    bounded = f"SELECT *, min(IF({_ASKED}, {bounds}, NULL)) OVER {whole} AS __from, max(IF({_ASKED}, {bounds}, NULL)) OVER {whole} AS __to FROM ({query})"
    marked = f"SELECT *, COALESCE({inside}, false) OR {_ASKED} AS __inside FROM ({bounded})"
    placed = f"SELECT *, min(IF(__inside, {ROW}, NULL)) OVER {whole} AS __first, max(IF(__inside, {ROW}, NULL)) OVER {whole} AS __last FROM ({marked})"
    return f"SELECT * EXCEPT (__from, __to, __inside, __first, __last) FROM ({placed}) WHERE {ROW} BETWEEN __first - {reach} AND __last + {reach} LIMIT {rows + 1}"


def row_columns(question: Question, source: str) -> list[str]:
    """The columns of a frozen row: the plan's inputs, the values of comparisons, and the row's number in its partition.

    ``source``: the clause's input, which the clock of unfinished matches reads a second time.
    """
    plan, window = question.plan, window_of(question.plan, [key.column for key in question.plan.partition])
    texts = dict(plan.inputs)
    if question.unfinished is not None and CLOCK in texts:
        texts[CLOCK] = clock_text(question.unfinished, source)
    computed = [f"{text} AS {name}" for name, text in texts.items()] + letters_sql(plan)
    computed += [f"{text.replace(ORDER, window)} AS {name}" for name, text in (*plan.ordered_inputs, *question.columns)]
    return [*computed, f"row_number() OVER ({window}) - 1 AS {ROW}"]
