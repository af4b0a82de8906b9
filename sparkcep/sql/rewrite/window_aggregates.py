"""Turns Spark's aggregates under ALL ROWS PER MATCH into window functions over the rows of a match.

``rewrite`` uses this form if no JVM extension computes the aggregates. The engine sends each row of a match once (``stepwise`` in
``plan.plan``), so time and memory are linear in the rows of a match, not quadratic.

    rows of the engine -> one row for each new row of the match -> window functions over the match -> the last of each output row
"""

from __future__ import annotations

import re
from dataclasses import replace

from sparkcep.clause.tokens import WORD, tokenize
from sparkcep.clause.tree import ONE_ROW, WITH_UNMATCHED
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import Leaf, Plain
from sparkcep.plan.split.measures import ELEMENT, POSITION

# Spark supports these as window functions over a whole match only.
WHOLE_MATCH = frozenset(["MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC", "LISTAGG", "STRING_AGG"])
FROM_ALL_VALUES = frozenset(["PERCENTILE", "MODE"])  # Spark computes a running value of these from all values so far
INSTEAD = (
    "Spark cannot compute them over the rows so far as window functions. Write FINAL, percentile_approx for a percentile, array_join(array_agg(x), ',') for listagg, "
    "or two clauses for several DISTINCT arguments"
)
_LEAF = re.compile(r"\b__l\d+\b")
_ARRAY = re.compile(rf"\b{ELEMENT}\.(__d\d+)\b")
_COUNT = re.compile(r"CAST\(size\((.*)\) AS BIGINT\)", re.DOTALL)
_WRAPPED = {"array_min": "min", "array_max": "max"}
_DISTINCT = "array_distinct("
_RUNNING = "ORDER BY __row_id, __at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_FINAL = "ORDER BY __row_id, __at ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def searched(plan: Plan) -> bool:
    """Whether the output rows of a match may have another order than its rows."""
    return bool(plan.approximate or plan.slide or plan.ranking or plan.automaton or plan.changes)


def refused(plan: Plan) -> list[str]:
    """Returns the columns of aggregates that cannot be window functions.

    If there are any, each output row has an array of its match's rows.
    """
    running = {name: not _is_final(plan, text) for name, text in plan.arrays}
    found = []
    for name, text in plan.aggregates:
        words = [t.upper for t in tokenize(text) if t.kind == WORD]
        over = set(_ARRAY.findall(text))
        if "DISTINCT" in words or len(over) != 1 or (words[0] in WHOLE_MATCH and running[over.pop()]):
            found.append(name)
    return found


def slow(plan: Plan) -> list[str]:
    """Returns the columns of aggregates whose window function reads all values so far in each output row."""
    running = {name: not _is_final(plan, text) for name, text in plan.arrays}
    called = {name: next(t.upper for t in tokenize(text) if t.kind == WORD) for name, text in plan.aggregates}
    return [name for name, text in plan.aggregates if called[name] in FROM_ALL_VALUES and any(running[a] for a in _ARRAY.findall(text))]


def stepwise(plan: Plan) -> Plan | None:
    """Returns the plan that makes the engine send each row once, with its match's number.

    Returns None if an aggregate needs arrays, or if matches may share a number. Unfinished matches have none, and the engine
    numbers the matches of each partition by ``equal_keys``, which its output does not show.
    """
    if plan.rows == ONE_ROW or not (plan.aggregates or plan.over_arrays) or searched(plan) or refused(plan) or plan.equal_keys or plan.unfinished:
        return None
    rows = set(_rows(plan))
    if rows & {name for _, text in plan.outputs for name in _LEAF.findall(text)}:
        return None
    if any(leaf.spec.kind == "mno" for leaf in plan.leaves):
        return replace(plan, stepwise=True)
    return replace(plan, stepwise=True, leaves=(*plan.leaves, Leaf(f"__l{len(plan.leaves)}", Plain("mno"))))


def in_windows(plan: Plan, call: str, kept: list[str]) -> str:
    """Returns the rows of ``call`` with the columns of aggregates and functions of arrays.

    ``plan`` is stepwise. ``kept``: the leaves that are read above.
    """
    arrays, calls = _calls(plan)
    rows = _rows(plan)
    number = next(leaf.name for leaf in plan.leaves if leaf.spec.kind == "mno")
    match = ", ".join([*plan.key_texts(), *(["__matched"] if plan.rows == WITH_UNMATCHED else []), "__task", number])
    new = ", ".join(f"filter({name}, __r -> __r IS NOT NULL) AS {name}" for name in rows)  # removes the marks
    unmarked = f"SELECT * EXCEPT ({', '.join(rows)}), {new} FROM {call}"
    made = ", ".join(f"{text.removeprefix(_DISTINCT).removesuffix(')') if _once(text) else text} AS {name}" for name, text in arrays)
    zipped = f"arrays_zip({', '.join(name for name, _ in arrays)})"
    numbered = f"SELECT *, {zipped} AS __zip, monotonically_increasing_id() AS __row_id, spark_partition_id() AS __task FROM (SELECT *, {made} FROM ({unmarked}))"
    spread = f"SELECT *, `struct`(__row_id, __at) AS {POSITION}, size(__zip) AS __size FROM ({numbered}) LATERAL VIEW OUTER posexplode(__zip) __z AS __at, {ELEMENT}"
    once = [name for name, text in arrays if _once(text)]
    if once:
        firsts = (f"row_number() OVER (PARTITION BY {match}, {ELEMENT}.{name} ORDER BY __row_id, __at) = 1 AS {name}_first" for name in once)
        spread = f"SELECT *, {', '.join(firsts)} FROM ({spread})"
    values = ", ".join(f"{text} OVER (PARTITION BY {match}{frame and ' '}{frame}) AS {name}" for name, text, frame in calls)
    dropped = [*(leaf.name for leaf in plan.leaves if leaf.name not in kept), *(name for name, _ in arrays), *(f"{name}_first" for name in once)]
    dropped += ["__zip", "__row_id", "__task", "__at", "__size", ELEMENT, POSITION]
    return f"(SELECT * EXCEPT ({', '.join(dropped)}) FROM (SELECT *, {values} FROM ({spread})) WHERE __at IS NULL OR __at = __size - 1)"


def _calls(plan: Plan) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Returns the arrays as (name, text), and the aggregates over their elements as (column, text, frame)."""
    arrays = [(name, text) for name, text in plan.arrays]
    texts = [(name, text, _ARRAY.findall(text)[0]) for name, text in plan.aggregates]
    for i, (name, text) in enumerate(plan.over_arrays):
        count, wrapper = _COUNT.fullmatch(text), text.partition("(")[0]
        function = "count" if count else _WRAPPED.get(wrapper, "collect_list")
        arrays.append((f"__v{i}", count[1] if count else text[len(wrapper) + 1 : -1] if wrapper in _WRAPPED else text))
        texts.append((name, f"{function}({ELEMENT}.__v{i}) FILTER (WHERE {ELEMENT}.__v{i} IS NOT NULL)", f"__v{i}"))
    of = dict(arrays)
    calls = []
    for name, text, array in texts:
        if _once(of[array]):
            head, behind, conditions = text.rpartition("FILTER (WHERE ")
            text = f"{head}{behind}{array}_first AND {conditions}"
        final = _is_final(plan, of[array])
        whole = final and next(t.upper for t in tokenize(text) if t.kind == WORD) in WHOLE_MATCH
        calls.append((name, text, "" if whole else _FINAL if final else _RUNNING))
    return arrays, calls


def _once(array: str) -> bool:
    """Whether equal elements of an array count once."""
    return array.startswith(_DISTINCT)


def _rows(plan: Plan) -> list[str]:
    """Returns the leaves that are arrays of a match's rows."""
    return [leaf.name for leaf in plan.leaves if leaf.spec.kind == "rows"]


def _is_final(plan: Plan, array: str) -> bool:
    rows = {leaf.name: leaf.spec.final for leaf in plan.leaves if leaf.spec.kind == "rows"}
    return next(rows[name] for name in _LEAF.findall(array) if name in rows)
