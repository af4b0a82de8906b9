"""Finds the WHERE that leaves a row out before the clause sees it.

If no row of the clause's input fulfils ``at``, the question goes down through subqueries, CTEs and views of one table. A join,
GROUP BY or LIMIT stops it. Columns that a query names are replaced by their expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException, PySparkException

from sparkcep.clause.expressions import Expr, render
from sparkcep.clause.parser import parse_clause
from sparkcep.clause.tokens import END, QUOTED, WORD, Token, matching, name_of, outside, tokenize
from sparkcep.errors import ClauseError, position
from sparkcep.spark.why.partition import Run
from sparkcep.spark.why.statement import Input
from sparkcep.tracing.answers.values import Values, truth
from sparkcep.tracing.conditions.collector import is_literal, sides_of
from sparkcep.tracing.conditions.comparisons import combined, numbers, taken_apart
from sparkcep.tracing.rows.local_times import values_of

LEVELS = 5
_CONDITION = "PATTERN (A) DEFINE A AS "
_ROWS = "__rows"
_STOPS = frozenset("JOIN GROUP LIMIT HAVING UNION INTERSECT EXCEPT MINUS OFFSET LATERAL PIVOT UNPIVOT TABLESAMPLE DISTINCT QUALIFY MATCH_RECOGNIZE".split())
_ENDS = frozenset("ORDER SORT CLUSTER DISTRIBUTE WINDOW".split())


@dataclass(frozen=True)
class _Query:
    """A query of one table.

    Attributes:
        name: what the answer calls it.
        at: its text, which has its place in the statement.
        table: the table, as SQL.
        where: the condition, "" without one.
        named: the expressions of the columns that it names, by their names in lower case.
        of_view: whether it is the query of a view.
    """

    name: str
    at: str
    table: str
    where: str
    named: Mapping[str, str]
    of_view: bool = False


def filtered(run: Run, asked: Input, at: str, values: Values, view: Callable[[str], str]) -> list[str]:
    """The lines that say which WHERE leaves the rows out. Empty if the question cannot go down.

    Args:
        run: runs a statement.
        asked: the clause and its input.
        at: the condition on the rows.
        values: writes values of rows.
        view: returns the query of a view by its name, "" for a table.
    """
    source, names = asked.source, asked.names
    for _ in range(LEVELS):
        query = _inner(source, names, view)
        if query is None:
            return []
        at = _below(at, query.named)
        if query.of_view:
            names = ""  # a view does not see the statement's CTEs
        if query.where and (lines := _left_out(run, names, query, asked, at, values)) is not None:
            return lines
        source = query.table
    return []


def _below(at: str, named: Mapping[str, str]) -> str:
    """A condition over the columns of a query as a condition over the columns of its table."""
    text = _CONDITION + at
    condition = parse_clause(text).defines[0].condition
    columns = [node for node in condition.walk() if node.op == "col"]
    swaps = {node.span: f"({named[node.value[-1].lower()]})" for node in columns if node.value[-1].lower() in named}
    return render(text, condition, swaps)


def _inner(source: str, names: str, view: Callable[[str], str]) -> _Query | None:
    """The query of one table that makes a source; None for a table, a join, and a query of another form."""
    tokens = [token for token in tokenize(source) if token.kind != END]
    close = matching(tokens)
    name, of_view = "the subquery", False
    if tokens and tokens[0].text == "(" and 0 in close:
        last = close[0]
        text = source[tokens[0].end : tokens[last].start]
    elif tokens and tokens[0].kind in (WORD, QUOTED):
        name = name_of(tokens[0])
        last = next((i for i in range(0, len(tokens), 2) if i + 1 == len(tokens) or tokens[i + 1].text != "."), 0)
        text = dict(_definitions(names)).get(name.lower(), "") if not last else ""
    else:
        return None
    if not _is_alias(tokens[last + 1 :]):
        return None
    if not text:
        name = source[tokens[0].start : tokens[last].end]
        text, of_view = view(name), True
    inner = [token for token in tokenize(text) if token.kind != END]
    if not inner or inner[0].upper != "SELECT":
        return None
    words = [i for i in outside(inner) if inner[i].kind == WORD]
    if any(inner[i].upper in _STOPS for i in words):
        return None
    begin = next((i for i in words if inner[i].upper == "FROM"), None)
    if begin is None:
        return None
    end = next((i for i in words if i > begin and inner[i].upper in _ENDS), len(inner))
    where = next((i for i in words if begin < i < end and inner[i].upper == "WHERE"), end)
    if where == begin + 1 or any(inner[i].text == "," for i in outside(inner) if begin < i < where):
        return None
    condition = text[inner[where + 1].start : inner[end - 1].end] if where < end - 1 else ""
    named = dict(_named(text, inner[1:begin]))
    return _Query(name, text, text[inner[begin + 1].start : inner[where - 1].end], condition, named, of_view)


def _is_alias(tokens: list[Token]) -> bool:
    """Whether the tokens after a table are its alias, without columns, or none. Others are those of a join, a sample or a call."""
    name = tokens[1:] if tokens and tokens[0].upper == "AS" else tokens
    return not tokens or (len(name) == 1 and name[0].kind in (WORD, QUOTED))


def _named(text: str, tokens: list[Token]) -> Iterator[tuple[str, str]]:
    """The columns of a SELECT that have another name than in the table, or are computed: name in lower case, and expression."""
    commas = [i for i in outside(tokens) if tokens[i].text == ","]
    for start, end in zip([0, *(i + 1 for i in commas)], [*commas, len(tokens)], strict=True):
        item = tokens[start:end]
        if len(item) > 2 and item[-2].upper == "AS":
            yield name_of(item[-1]).lower(), text[item[0].start : item[-3].end]


def _definitions(names: str) -> Iterator[tuple[str, str]]:
    """The name and the query of each definition of a WITH without a list of columns."""
    tokens = [token for token in tokenize(names) if token.kind != END]
    close, i = matching(tokens), 1
    while i + 2 < len(tokens):
        opening = i + 2
        if tokens[i + 1].upper != "AS" or opening not in close:
            return
        yield name_of(tokens[i]).lower(), names[tokens[opening].end : tokens[close[opening]].start]
        i = close[opening] + 2


def _left_out(run: Run, names: str, query: _Query, asked: Input, at: str, values: Values) -> list[str] | None:
    """The lines for a query whose table has such rows. None if it has none, or other columns, or rows for which ``at`` fails."""
    clause_text = _CONDITION + query.where
    try:
        condition = parse_clause(clause_text).defines[0].condition
    except ClauseError:
        return None
    found: list[Expr] = []

    def number(expr: Expr, top: bool) -> int:
        found.append(expr)
        return len(found) - 1

    logic = taken_apart(condition, number)
    parts, operands = (logic[1:], condition.bare().args) if logic[0] == "and" else ((logic,), (condition,))
    sides = [(i, side) for i, expr in enumerate(found) for side in sides_of(expr) if not is_literal(side)]
    before = {i: [f"({operand.span.of(clause_text)})" for operand in operands[:k]] for k, part in enumerate(parts) for i in numbers(part)}

    def computed(is_guarded: bool) -> Iterator[str]:
        """The comparisons and their sides as columns. If guarded, only where the operands of AND before them are true."""
        for name, i, expr in (*((f"__t{i}", i, expr) for i, expr in enumerate(found)), *((f"__s{j}", i, side) for j, (i, side) in enumerate(sides))):
            text, guard = f"({expr.span.of(clause_text)})", " AND ".join(before[i])
            yield f"IF({guard}, {text}, NULL) AS {name}" if is_guarded and guard else f"{text} AS {name}"

    for is_guarded in (False, True):
        left = f"SELECT {', '.join(computed(is_guarded))} FROM {query.table} WHERE ({at})"
        try:
            table = run(f"{names}SELECT row.*, rows AS {_ROWS} FROM (SELECT first(`struct`(*)) AS row, count(*) AS rows FROM ({left}))").toArrow()
            break
        except AnalysisException:  # the table has other columns
            return None
        except PySparkException:  # under ANSI a comparison can fail that AND guards
            continue
    else:
        return None
    row = {name: values_of(table[name], asked.settings.zone)[0] for name in table.column_names}
    count = row[_ROWS]
    if not count:
        return None
    source = query.table if "(" not in query.table else "its input"
    line = f"line {position(asked.sql, asked.sql.find(query.at))[0]}" if query.at in asked.sql else "a view"
    does, them = ("One row of {} does", "it") if count == 1 else (f"{count:,} rows of {{}} do", "them")
    lines = [f"{does.format(source)}; WHERE of {query.name} ({line}) leaves {them} out:"]
    shown = []
    for part in parts:
        if combined(part, lambda i: row[f"__t{i}"]) is not True:
            for i in dict.fromkeys(numbers(part)):
                swaps = {side.span: values.text(row[f"__s{j}"]) for j, (of, side) in enumerate(sides) if of == i}
                shown.append((" ".join(found[i].span.of(clause_text).split()), " ".join(render(clause_text, found[i], swaps).split()), truth(row[f"__t{i}"])))
            if is_guarded:
                break  # the operands after it are not computed
    texts, middles = (max((len(one[i]) for one in shown), default=0) for i in range(2))
    return lines + [f"  {text:<{texts}}  {'' if values.redact == 'all' else f'{middle:<{middles}}  '}{found}" for text, middle, found in shown]
