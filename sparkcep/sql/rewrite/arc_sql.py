"""What is for several partitions, as SQL: rows of ARCS FROM, and punctuations whose partition keys are all NULL.

The first row of each partition is joined with all of these as one array, and given once for each of them, so that each partition
has its own, with its keys whatever these are. What such a copy has beside its own columns nobody reads.
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
    """The input of the table function over the rows of a clause with ARCS FROM, less its distribution and order."""
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
    """The rows of a clause with PARTITION BY and CHANGES IN, in which each partition has the punctuations that are for all of
    them."""
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
    """The rows, with a struct of that name beside them which is NULL; in front of each partition further ones, in which it is one
    of the ``wanted`` others."""
    keys, time = [key.column for key in plan.partition], plan.order[0].column
    over = f"PARTITION BY {', '.join(keys)} ORDER BY {time}" if keys else f"ORDER BY {time}"
    first = f"SELECT *, row_number() OVER ({over}) AS {_FIRST} FROM ({rows})"
    return (
        f"SELECT * EXCEPT ({_FIRST}, {_ARCS}) FROM ({first}) AS __n LEFT JOIN (SELECT concat(array(NULL), collect_list(struct(*))) AS {_ARCS} FROM ({others})) AS __j "
        f"ON {_FIRST} = 1 LATERAL VIEW OUTER explode({wanted}) __e AS {name}"
    )


def _arrival(plan: Plan, came: Iterable[str], turn: str) -> str:
    """The column by which rows arrive in their partition, those of one moment in their turn."""
    keys = [key.column for key in plan.partition]
    of = f"PARTITION BY {', '.join(keys)} " if keys else ""
    return f"dense_rank() OVER ({of}ORDER BY {', '.join([*came, turn])}) AS {plan.changes.arrival}"


def _table(plan: Plan, arrival: list[str]) -> str:
    """The rows of the table of arcs. A name stands for its column where it has one, else for the NULL beside it; in ARRIVAL BY for
    its column alone."""
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
    """Whether a moment is not behind another in the order of ARRIVAL BY. Their types may differ, so that structs of them are not
    compared."""
    (one, two), rest = (moment[0], other[0]), (moment[1:], other[1:])
    before = f"coalesce({one} < {two}, {one} IS NULL AND {two} IS NOT NULL)"
    return f"({before} OR {one} <=> {two}" + (f" AND {_not_behind(*rest)})" if rest[0] else ")")


def _own(keys: list[str]) -> str:
    """Of all arcs those of a partition: without keys of their own, or with its keys."""
    if not keys:
        return _ARCS
    none = " AND ".join(f"x.{a.key_column(i)} IS NULL" for i in range(len(keys)))
    same = " AND ".join(f"x.{a.key_column(i)} <=> {key}" for i, key in enumerate(keys))
    return f"filter({_ARCS}, x -> x IS NULL OR ({none}) OR ({same}))"


def _with_now(plan: Plan, table: str, arrival: list[str], rows: str) -> str:
    """The arcs, with the largest time of all rows of all partitions that came before each that has no valid_from, or deletes
    without valid_to. Rows are counted by how many such arcs came before them, so that there are few sums to choose from."""
    nothing = f"SELECT {', '.join(f'first({row}) AS __r{i}' for i, row in enumerate(plan.arcs.came))} FROM ({rows}) WHERE false"
    typed = f"({table}), ({nothing})"  # NULLs of the rows' types, which give moments the type in which rows and arcs are compared
    own = f"struct({', '.join(f'coalesce(__r{i}, {name}) AS {name}' for i, name in enumerate(arrival))})"
    asks = f"{a.FROM} IS NULL OR ({a.TO} IS NULL AND lower({a.OP}) = 'delete')"
    moments = f"SELECT array_sort(collect_set(CASE WHEN {asks} THEN {own} END)) AS __moments FROM {typed}"
    not_behind = _not_behind([f"x.{name}" for name in arrival], list(plan.arcs.came))
    before = f"SELECT size(filter(__moments, x -> {not_behind})) AS __b, {plan.order[0].column} AS __m FROM ({rows}), ({moments})"
    sums = f"SELECT collect_list(struct(__b, __m)) AS __sums FROM (SELECT __b, max(__m) AS __m FROM ({before}) GROUP BY __b)"
    now = f"array_max(transform(filter(__sums, x -> x.__b < array_position(__moments, {own})), x -> x.__m))"
    return f"SELECT * EXCEPT ({', '.join(f'__r{i}' for i in range(len(arrival)))}), {now} AS {a.NOW} FROM {typed}, ({moments}), ({sums})"
