"""Event time of the output: finds the measure that is a time of the match's rows.

That measure is FIRST or LAST of the first ORDER BY column, unchanged. Over a stream it has the watermark.
"""

from __future__ import annotations

from sparkcep.plan.records import ALL_ROWS, Computed, Leaf, LeafSpec


def time_output(order: str, inputs: tuple[Computed, ...], leaves: tuple[Leaf, ...], outputs: tuple[Computed, ...], cased: bool) -> tuple[Computed, ...]:
    """The first of ``outputs`` that is such a measure, as a tuple of at most one.

    Args:
        order: the input column of the first ORDER BY expression.
        inputs: the input columns.
        leaves: the leaves.
        outputs: the measures.
        cased: whether names are case-sensitive.
    """
    texts, specs = dict(inputs), dict(leaves)
    for output in outputs:
        spec = specs.get(output.text)
        if spec is not None and _is_end(spec) and (spec.column == order or _same(texts.get(spec.column, ""), texts.get(order, ""), cased)):
            return (output,)
    return ()


def _is_end(spec: LeafSpec) -> bool:
    return spec.kind == "nav" and spec.mask == ALL_ROWS and not spec.logical and not spec.physical


def _same(one: str, other: str, cased: bool) -> bool:
    """Whether two texts name one column, possibly with a table name in one of them."""
    parts = [text.replace("`", "") if cased else text.replace("`", "").lower() for text in (one, other)]
    short, long = sorted(parts, key=len)
    return short.isidentifier() and long.replace(".", "").isidentifier() and (short == long or long.endswith(f".{short}"))
