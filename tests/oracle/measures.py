"""The rows a MATCH_RECOGNIZE gives back."""

from __future__ import annotations

from .expr import Context, evaluate

ONE_ROW, SHOW_EMPTY, OMIT_EMPTY, WITH_UNMATCHED = "one", "show", "omit", "unmatched"


def output_rows(rows, matches, measures, mode, subsets=None):
    """Rows as (position of the input row or None for ONE ROW, {measure: value}), in match order.

    A row of no match stands where its position puts it.
    """
    subsets = subsets or {}
    keyed = []
    for match in matches:
        context = Context(rows, match.start, match.labels, match.number, subsets)
        if mode == ONE_ROW:
            keyed.append((match.start, match.number, None, _values(measures, context, len(match.labels))))
        elif not match.labels:
            if mode != OMIT_EMPTY:
                keyed.append((match.start, match.number, match.start, _values(measures, context, 0)))
        else:
            for i, hidden in enumerate(match.excluded):
                if not hidden:
                    values = _values(measures, context, i + 1)
                    keyed.append((match.start, match.number, match.start + i, values))
    if mode == WITH_UNMATCHED:
        taken = {row for m in matches for row in range(m.start, max(m.stop, m.start + 1))}
        nothing = dict.fromkeys(measures)
        keyed += [(row, 0, row, dict(nothing)) for row in range(len(rows)) if row not in taken]
    # Stable: rows of one match keep their order.
    keyed.sort(key=lambda k: (k[0], k[1]))
    return [(row, values) for _, _, row, values in keyed]


def _values(measures, context, seen):
    return {name: evaluate(e, context, seen) for name, e in measures.items()}
