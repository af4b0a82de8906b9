"""SQL for the combination of objectives, and of the scores of sequences (COMBINE BY).

The splitter of measures and the preference analysis use it.
"""

from __future__ import annotations

from collections.abc import Sequence

_NUMBERS = "'tinyint', 'smallint', 'int', 'bigint', 'float', 'double', 'void'"


def combined(
    goals: Sequence[str], names: Sequence[str], combine: str | None, absent: Sequence[str], weights: Sequence[str] = (), *, scores: bool = False
) -> str:
    """SQL for the combination of values, NULL if one that counts is NULL, or if none counts.

    Args:
        goals: MAX, or MIN for a value whose sign is changed.
        names: the values as SQL.
        combine: the function of COMBINE BY, None for SUM.
        absent: for each value, SQL for when it is left out, "" for never.
        weights: the weights as SQL, if the values are weighted. "" is 1.
        scores: whether the values are scores, whose types were checked.
    """
    checked = names if scores else [_number(name) for name in names]
    parts = [f"(-{part})" if goal == "MIN" else part for part, goal in zip(checked, goals)]
    parts = [f"({part}) * ({weight})" if weight else part for part, weight in zip(parts, weights or [""] * len(parts))]
    combine = combine or "SUM"
    if len(parts) == 1:
        if combine == "AVG" and any(weights):
            parts = [f"{parts[0]} / ({weights[0]})"]
        return f"IF({absent[0]}, NULL, {parts[0]})" if absent[0] else parts[0]
    if combine in ("MIN", "MAX"):
        nulls = " OR ".join(f"(NOT ({left}) AND {name} IS NULL)" if left else f"{name} IS NULL" for name, left in zip(names, absent))
        parts = [f"IF({left}, NULL, {part})" if left else part for part, left in zip(parts, absent)]
        return f"CASE WHEN {nulls} THEN NULL ELSE {'least' if combine == 'MIN' else 'greatest'}({', '.join(parts)}) END"
    operator, neutral = ("*", "1Y") if combine == "PRODUCT" else ("+", "0Y")
    whole = f" {operator} ".join(f"IF({left}, {neutral}, {part})" if left else part for part, left in zip(parts, absent))
    if combine == "AVG" and any(weights):
        total = " + ".join(f"IF({left}, 0, {weight or 1})" if left else f"({weight or 1})" for weight, left in zip(weights, absent))
        none = " AND ".join(f"({left})" for left in absent) if all(absent) else ""
        return f"IF({none}, NULL, ({whole}) / ({total}))" if none else f"({whole}) / ({total})"
    if not any(absent):
        return f"({whole}) / {len(parts)}" if combine == "AVG" else whole
    left = " + ".join(f"IF({text}, 0, 1)" if text else "1" for text in absent)
    if combine == "AVG":
        return f"CASE {left} {' '.join(f'WHEN {n} THEN ({whole}) / {n}' for n in range(1, len(parts) + 1))} END"
    return whole if not all(absent) else f"IF({left} = 0, NULL, {whole})"


def _number(column: str) -> str:
    """SQL that raises an error if an objective is not a number.

    typeof is a constant for Spark, so the test costs nothing at run time.
    """
    wrong = f"raise_error(concat('[SPARKCEP.PREF] PREF needs a number, not a value of type ', typeof({column})))"
    return f"IF(typeof({column}) IN ({_NUMBERS}) OR typeof({column}) LIKE 'decimal%', {column}, {wrong})"
