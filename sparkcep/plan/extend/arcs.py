"""ARCS FROM: arcs that rows of a table insert and delete, and the input columns that carry those rows.

Spark puts the rows of that table in front of each partition's own rows (:mod:`sparkcep.sql.rewrite.arc_sql`). So one ordered input
has all events.
"""

from __future__ import annotations

from sparkcep.clause.tokens import Span, tokenize
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import SEMANTIC, ClauseError, position
from sparkcep.plan.records import Arcs, Automaton, parameter_column
from sparkcep.plan.scope import Inputs, Scope

# Input columns: whether a row is from ARCS FROM, the name of its arc, its operation, the start and the end of the arc's validity,
# the row's number in that table, the largest time of all earlier rows, and the common arrival order of rows and arcs.
IS, NAME, OP, FROM, TO, NUMBER, NOW, ARRIVED = "__a_is", "__a_arc", "__a_op", "__a_from", "__a_to", "__a_no", "__a_now", "__a_at"
# Input columns of an arc that is written as text: its source and target state, whether the target is final, its fence and its
# assignments. The last one has all columns of a row, which the texts can read, as one struct.
SOURCE, TARGET, FINAL, WHEN, SET, ROW = "__a_source", "__a_target", "__a_final", "__a_when", "__a_set", "__a_row"
BASE, ARC = "__a_base", "__a_of"  # added by the engine: where the list of arcs valid at a row begins, and which arc of the automaton a text is
_TEXT_COLUMNS = {"to_state": TARGET, "final": FINAL, "when": WHEN, "set": SET}


def own_columns(texts: bool) -> dict[str, str]:
    """The columns that the table of arcs may have, with their names in the input.

    Arcs as text are recognized by from_state alone.
    """
    return {"arc": NAME, "op": OP, "valid_from": FROM, "valid_to": TO, "from_state": SOURCE, **(_TEXT_COLUMNS if texts else {})}


def written_column(parameter: int) -> str:
    """The column that holds a parameter as the table has it.

    :func:`sparkcep.plan.records.parameter_column` holds it in the parameter's type.
    """
    return f"__v{parameter}"


def key_column(key: int) -> str:
    """The column that holds a partition key of an arc."""
    return f"__y{key}"


def moment_column(number: int) -> str:
    """The column that holds an expression of ARRIVAL BY, for rows and for arcs."""
    return f"__a_t{number}"


def came_column(number: int) -> str:
    """A column of NULLs whose type is that of an expression in the rows' ARRIVAL BY."""
    return f"__a_w{number}"


def input_columns(parameters: int, keys: int, arrival: int, texts: bool) -> tuple[str, ...]:
    """All input columns that only rows of ARCS FROM have.

    The arguments are the numbers of parameters, partition keys and ARRIVAL BY expressions, and whether arcs may come as text.
    """
    numbers = range(parameters)
    found = [IS, *own_columns(texts).values(), NUMBER, *map(parameter_column, numbers), *map(written_column, numbers), *map(key_column, range(keys)), *((ROW,) if texts else ())]
    return (*found, *map(moment_column, range(arrival)), *map(came_column, range(arrival)), *((ARRIVED,) if arrival else ()), *((NOW,) if arrival and keys else ()))


def check_arcs(clause: MatchClause) -> None:
    """Raises ClauseError for arcs with parameters, or tables of arcs, that cannot be used."""
    automaton = clause.automaton
    tables = automaton.tables
    templates = [arc for arc in automaton.arcs if arc.parameters is not None]
    if not tables:
        for arc in templates:
            message = f"the arc {arc.name} has parameters, whose values come from the rows of a table. Add ARCS FROM and a table with the columns {_columns(arc)}"
            raise _error(clause, arc.name_span, message)
        return
    if len(tables) > 1:
        raise _error(clause, tables[1].span, "an AUTOMATON has only one ARCS FROM. Combine the tables by UNION ALL in a query")
    _check_arrival(clause, tables[0])


def reads_texts(clause: MatchClause) -> bool:
    """Whether rows of ARCS FROM may be arcs as text.

    This holds if no arc of the clause has parameters, or if the text of ARCS FROM names the column from_state. Texts can read all
    columns of the rows, which are sent to the engine only in this case.
    """
    templates = any(arc.parameters is not None for arc in clause.automaton.arcs)
    return not templates or any(token.text.strip("`").lower() == "from_state" for token in tokenize(clause.automaton.tables[0].text))


def _check_arrival(clause: MatchClause, table) -> None:
    rows = clause.changes.arrival if clause.changes is not None else ()
    if table.arrival and not rows:
        message = "ARRIVAL BY of arcs shares one order with the rows. Write CHANGES IN c ARRIVAL BY ... for the rows, or leave ARRIVAL BY out here"
        raise _error(clause, table.arrival[0].span, message)
    if table.arrival and len(table.arrival) != len(rows):
        message = f"rows and arcs arrive in one order, so ARRIVAL BY needs equally many expressions for both: {len(rows)} for the rows, {len(table.arrival)} here"
        raise _error(clause, table.arrival[0].span, message)


def _columns(arc) -> str:
    return ", ".join(["arc", *(parameter.name for parameter in arc.parameters), "valid_from", "valid_to", "op"])


def _error(clause: MatchClause, span: Span, message: str) -> ClauseError:
    return clause.error(span, "AUTOMATON", message, SEMANTIC)


def arcs_of(clause: MatchClause, scope: Scope, inputs: Inputs, automaton: Automaton, keys: tuple[str, ...]) -> Arcs | None:
    """The record of a checked clause's ARCS FROM. ``automaton``: its automaton; ``keys``: names of the partition's keys."""
    if not clause.automaton.tables:
        return None
    table = clause.automaton.tables[0]
    arrival = tuple(scope.plain_text(expr, "ARRIVAL BY") for expr in table.arrival)
    rows, texts = clause.changes.arrival if arrival else (), reads_texts(clause)
    return Arcs(
        table.table.of(clause.text), arrival, tuple(inputs.column(scope.plain_text(expr, "ARRIVAL BY")) for expr in rows), keys,
        input_columns(len(automaton.parameters), len(keys), len(arrival), texts), texts, *position(clause.text, table.span.start), table.span.of(clause.text).split("\n")[0][:40],
    )
