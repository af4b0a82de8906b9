"""SQL that sends rows to several partitions: rows of ARCS FROM, and punctuations whose partition keys are all NULL.

The rewriter uses it. The first row of each partition is joined with all of these rows as one array, and repeated for each of them.
So each partition has its own copies, with its own keys. Only the added columns of a copy are read.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkcep.clause.tokens import quote
from sparkcep.plan.extend import arcs as a
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import parameter_column

_ARC, _PROMISE, _ARCS, _FIRST = "__arc", "__promise", "__arcs", "__first"
_TURNS = "CASE lower({}) WHEN 'delete' THEN -3 WHEN 'retract' THEN -2 WHEN 'punctuate' THEN -1 ELSE -4 END"
_ROW_TURNS = "CASE lower({}) WHEN 'retract' THEN 1 WHEN 'punctuate' THEN 2 ELSE 0 END"


def with_arcs(plan: Plan, rows: str) -> str:
    """Returns the table function's input for a clause with ARCS FROM, without distribution and order."""
    assert plan.arcs is not None and plan.automaton is not None
    keys = [key.column for key in plan.partition]
    arrival = [a.moment_column(i) for i in range(len(plan.arcs.arrival))]
    columns = [column for column in plan.arcs.columns if column not in (a.IS, a.ROW, a.ARRIVED, a.NOW, *arrival, *map(a.came_column, range(len(arrival))))]
    table = _table(plan, arrival)
    if plan.arcs.came and keys:
        table, columns = _with_now(plan, table, arrival, rows), [*columns, a.NOW]
    spread = _spread(plan, rows, f"SELECT {', '.join([*columns, *arrival])} FROM ({table})", _own(keys), _ARC)
    columns_of_arcs = [f"{_ARC} IS NOT NULL AS {a.IS}", *(f"{_ARC}.{column} AS {column}" for column in columns)]
    columns_of_arcs += [f"IF({_ARC} IS NULL, {row}, {_ARC}.{arc}) AS {arc}, IF(false, {row}, NULL) AS {a.came_column(i)}" for i, (row, arc) in enumerate(zip(plan.arcs.came, arrival))]
    flat = f"SELECT * EXCEPT ({_ARC}), {', '.join(columns_of_arcs)} FROM ({spread})"
    if not plan.arcs.came:
        return flat
    assert plan.changes is not None
    return f"SELECT *, {_arrival(plan, arrival, f'IF({a.IS}, {_TURNS.format(a.OP)}, {_ROW_TURNS.format(plan.changes.column)})')} FROM ({flat})"


def with_promises(plan: Plan, rows: str) -> str:
    """Returns the rows of a clause with PARTITION BY and CHANGES IN, with a copy of global punctuations in each partition."""
    changes = plan.changes
    assert changes is not None
    time, keys = plan.order[0].column, [key.column for key in plan.partition]
    for_all = f"lower({changes.column}) <=> 'punctuate' AND {' AND '.join(f'{key} IS NULL' for key in keys)}"
    came = list(dict.fromkeys([*changes.came, *([changes.punctuate] if changes.punctuate else [])]))
    promised = f"SELECT {', '.join(dict.fromkeys([time, *came]))} FROM ({rows}) WHERE {for_all}"
    spread = _spread(plan, f"SELECT * FROM ({rows}) WHERE NOT ({for_all})", promised, _ARCS, _PROMISE)
    said = {column: f"IF({_PROMISE} IS NULL, {column}, {_PROMISE}.{column}) AS {column}" for column in [time, *came]}
    said[changes.column] = f"IF({_PROMISE} IS NULL, {changes.column}, 'punctuate') AS {changes.column}"
    columns_of_arcs = f"SELECT * EXCEPT ({', '.join([_PROMISE, *said])}), {', '.join(said.values())} FROM ({spread})"
    if plan.arcs is not None and plan.arcs.came:
        return columns_of_arcs
    return f"SELECT * EXCEPT ({changes.arrival}), {_arrival(plan, changes.came, _ROW_TURNS.format(changes.column))} FROM ({columns_of_arcs})"


def _spread(plan: Plan, rows: str, others: str, wanted: str, name: str) -> str:
    """Returns the rows with an added struct ``name`` that is NULL.

    Before the rows of each partition come further rows whose struct is one of the ``wanted`` ``others``.
    """
    keys, time = [key.column for key in plan.partition], plan.order[0].column
    over = f"PARTITION BY {', '.join(keys)} ORDER BY {time}" if keys else f"ORDER BY {time}"
    first = f"SELECT *, row_number() OVER ({over}) AS {_FIRST} FROM ({rows})"
    return (
        f"SELECT * EXCEPT ({_FIRST}, {_ARCS}) FROM ({first}) AS __n LEFT JOIN (SELECT concat(`array`(NULL), collect_list(`struct`(*))) AS {_ARCS} FROM ({others})) AS __j "
        f"ON {_FIRST} = 1 LATERAL VIEW OUTER explode({wanted}) __e AS {name}"
    )


def _arrival(plan: Plan, came: Iterable[str], turn: str) -> str:
    """Returns the column that orders arrivals in a partition. Rows of one moment are ordered by ``turn``."""
    keys = [key.column for key in plan.partition]
    of = f"PARTITION BY {', '.join(keys)} " if keys else ""
    return f"dense_rank() OVER ({of}ORDER BY {', '.join([*came, turn])}) AS {plan.changes.arrival}"


def _table(plan: Plan, arrival: list[str]) -> str:
    """Returns the rows of the table of arcs.

    A name refers to the table's column if it has one, else to the NULL added beside it. In ARRIVAL BY it always refers to the
    column.
    """
    arcs, parameters = plan.arcs, plan.automaton.parameters
    own = a.own_columns(arcs.texts)

    def folded(name: str) -> str:
        return name if plan.case_sensitive else name.lower()

    names = {folded(name): quote(name) for name in (*own, *(parameter.name for parameter in parameters), *arcs.keys)}
    selected = [f"NULL AS {name}" for name in names.values()]
    selected += [f"{names[name]} AS {column}" for name, column in own.items()]
    for i, parameter in enumerate(parameters):
        name = names[folded(parameter.name)]
        selected += [f"try_cast({name} AS {parameter.type}) AS {parameter_column(i)}", f"{name} AS {a.written_column(i)}"]
    selected += [f"{names[folded(name)]} AS {a.key_column(i)}" for i, name in enumerate(arcs.keys)]
    moments = "".join(f", ({text}) AS {name}" for text, name in zip(arcs.arrival, arrival))
    source = f"(SELECT *{moments} FROM {arcs.table})" if moments else arcs.table
    return f"SELECT {', '.join([*selected, *arrival])}, monotonically_increasing_id() AS {a.NUMBER} FROM {source}"


def _not_behind(moment: list[str], other: list[str]) -> str:
    """Returns the condition that a moment is not after another in the order of ARRIVAL BY.

    Moments are compared element by element, because structs of different types cannot be compared.
    """
    (one, two), rest = (moment[0], other[0]), (moment[1:], other[1:])
    before = f"coalesce({one} < {two}, {one} IS NULL AND {two} IS NOT NULL)"
    return f"({before} OR {one} <=> {two}" + (f" AND {_not_behind(*rest)})" if rest[0] else ")")


def _own(keys: list[str]) -> str:
    """Returns the arcs of a partition: those without keys, or with the partition's keys."""
    if not keys:
        return _ARCS
    none = " AND ".join(f"x.{a.key_column(i)} IS NULL" for i in range(len(keys)))
    same = " AND ".join(f"x.{a.key_column(i)} <=> {key}" for i, key in enumerate(keys))
    return f"filter({_ARCS}, x -> x IS NULL OR ({none}) OR ({same}))"


def _with_now(plan: Plan, table: str, arrival: list[str], rows: str) -> str:
    """Returns the arcs with the current time at their arrival, if they lack valid_from, or delete without valid_to.

    That time is the maximum over all rows of all partitions that came before. Rows are grouped by the number of such arcs before
    them, so that few sums remain to choose from.
    """
    nothing = f"SELECT {', '.join(f'first({row}) AS __r{i}' for i, row in enumerate(plan.arcs.came))} FROM ({rows}) WHERE false"
    typed = f"({table}), ({nothing})"  # NULLs of the rows' types give moments the common type of rows and arcs
    own = "named_struct(" + ", ".join(f"'{name}', coalesce(__r{i}, {name})" for i, name in enumerate(arrival)) + ")"
    asks = f"{a.FROM} IS NULL OR ({a.TO} IS NULL AND lower({a.OP}) = 'delete')"
    moments = f"SELECT array_sort(collect_set(CASE WHEN {asks} THEN {own} END)) AS __moments FROM {typed}"
    not_behind = _not_behind([f"x.{name}" for name in arrival], list(plan.arcs.came))
    before = f"SELECT size(filter(__moments, x -> {not_behind})) AS __b, {plan.order[0].column} AS __m FROM ({rows}), ({moments})"
    sums = f"SELECT collect_list(`struct`(__b, __m)) AS __sums FROM (SELECT __b, max(__m) AS __m FROM ({before}) GROUP BY __b)"
    now = f"array_max(transform(filter(__sums, x -> x.__b < array_position(__moments, {own})), x -> x.__m))"
    return f"SELECT * EXCEPT ({', '.join(f'__r{i}' for i in range(len(arrival)))}), {now} AS {a.NOW} FROM {typed}, ({moments}), ({sums})"
