"""Counts ranked and approximate matches, for the question about a whole table."""

from __future__ import annotations

from collections.abc import Sequence

from sparkcep.errors import MatchRuntimeError
from sparkcep.tracing.answers.values import Values, counted
from sparkcep.tracing.kinds.approximate import MORE, allows, errors_allowed, with_errors
from sparkcep.tracing.kinds.listing import MOST, Compute, beyond_limits, listed
from sparkcep.tracing.kinds.names import ListedNames
from sparkcep.tracing.kinds.ranked import places, with_top
from sparkcep.tracing.rows.frozen import FrozenRows


def ranked_counts(parts: Sequence[FrozenRows], compute: Compute, values: Values) -> list[str] | None:
    """How many matches TOP keeps, with the scores around the last of them. None if two searches of the engine differ."""
    plan = parts[0].question.whole
    assert plan is not None and plan.ranking is not None
    top, tables = plan.ranking.top, [part.table for part in parts]
    kept = listed(plan, tables, compute)
    most = max(MOST // max(1, sum(map(len, kept))), top + 1) if plan.slide is not None else max(MOST, top + 1)
    found = listed(with_top(plan, most), tables, compute)
    if any(places(some) != places(match for match in more if match.rank <= top) for some, more in zip(kept, found, strict=True)):
        return None
    count, total = sum(map(len, kept)), sum(map(len, found))
    more = " or more" if any(match.rank == most for some in found for match in some) else ""
    each = "each window of each partition" if plan.slide is not None else "each partition"
    places_of = "places in windows" if plan.slide is not None else "matches"
    rows = sum(part.count for part in parts)
    lines = [f"TOP {top} keeps {count:,} of {total:,}{more} {places_of}, in {rows:,} rows of {counted(len(parts), 'partition')}."]
    if plan.ranking.overall:
        lines.append("With OVERALL the matches of all partitions are ranked together. Here each partition is ranked by itself.")
    if len(parts) == 1 and plan.slide is None and found[0]:
        names, ranks = ListedNames(parts[0], values), found[0]
        shown = {"best": ranks[0], f"rank {top}": ranks[top - 1] if len(ranks) >= top else None, f"rank {top + 1}": ranks[top] if len(ranks) > top else None}
        lines.append("Scores: " + ", ".join(f"{what} {names.value(match.score)}" for what, match in shown.items() if match is not None) + ".")
    elif total:
        lines.append(f"At most {top} of {each} are kept.")
    return lines


def approximate_counts(parts: Sequence[FrozenRows], compute: Compute) -> list[str] | None:
    """How many matches APPROX reports, with the clause's k and with further errors. None if two searches of the engine differ."""
    plan = parts[0].question.whole
    assert plan is not None
    tables = [part.table for part in parts]
    texts = []
    before: set | None = None
    for more in range(MORE + 1):
        if not allows(plan, more):
            break
        try:
            found = listed(with_errors(plan, more), tables, compute)
        except MatchRuntimeError as error:
            if not beyond_limits(error) or not more:
                raise
            break
        points = {(part, match.rows[-1]) for part, some in enumerate(found) for match in some}
        if before is not None and not before <= points and plan.approximate is not None and plan.approximate.report != "BUNDLES":
            return None
        before = points
        exact = sum(not match.errors for some in found for match in some)
        texts.append(f"{counted(sum(map(len, found)), 'match')} with APPROX {errors_allowed(plan, more)}" + (f" ({exact:,} without errors)" if not more else ""))
    rows = sum(part.count for part in parts)
    return [f"{', '.join(texts)}, in {rows:,} rows of {counted(len(parts), 'partition')}."]
