"""Lists the matches of a clause with TOP or APPROX, by the engine: the rows of each with their variables, errors, score and rank.

The other modules of this package use it. The engine returns one row for each match. Spark then computes scores and ranks, as in a
statement: :data:`Compute` runs a query over the engine's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from sparkcep.clause.tree import ONE_ROW, SHOW_EMPTY
from sparkcep.engine.factory import match_table
from sparkcep.errors import MatchRuntimeError
from sparkcep.plan.facts import shown
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import ALL_ROWS, CLASSIFIER_COLUMN, Bound, Computed, Errors, Leaf, Plain, Ranking, Rows
from sparkcep.plan.scope import RANK, SCORE
from sparkcep.sql.rewrite.rewrite import by_rank, ranked_by, scored, subquery
from sparkcep.tracing.rows.local_times import values_of

Compute: TypeAlias = Callable[[str, pa.Table], pa.Table]  # runs a query over a table, which the query names MATCHES
MATCHES = "__w_matches"
MOST = 1_000  # matches of a partition, with SLIDE of a window
LIMITS = {"max_steps": 100_000_000, "max_matches": 200_000}  # of a search that lists matches
_MATCH, _VECTOR, _LABELS, _ERRORS, _MISSING, _KIND, _NUMBER, _PART, _PLACE = "__w_match", "__w_vector", "__w_labels", "__w_errors", "__w_missing", "__w_kind", "__w_number", "__w_part", "__w_place"

_OF_LIMITS = ("EFFORT_LIMIT", "STATE_LIMIT", "MATCH_LIMIT")


def beyond_limits(error: MatchRuntimeError) -> bool:
    """Whether a search needs more work or memory than allowed. Other errors are the query's own."""
    return error.error_class.removeprefix("SPARKCEP.") in _OF_LIMITS


@dataclass(frozen=True)
class Listed:
    """A match.

    Attributes:
        rows: the positions of its rows in the partition, none of an empty match.
        variables: the variable of each row, -1 for an extra row. With ``&`` a row may have several.
        places: the row of each of ``variables``.
        errors: MATCH_ERRORS(), 0 for an exact match.
        missing: MISSING(), the names of variables without a row.
        substituted: the rows that do not fulfil the conditions of their variables.
        score: MATCH_SCORE(), None if it is NULL or if the clause does not compute one.
        rank: its rank, from 1; 0 without TOP.
        objectives: the values of the objectives of PREF.
        window: WINDOW_START() with SLIDE.
        number: MATCH_NUMBER() of the clause without TOP.
    """

    rows: tuple[int, ...]
    variables: tuple[int, ...]
    places: tuple[int, ...]
    errors: float = 0
    missing: tuple[str, ...] = ()
    substituted: tuple[int, ...] = ()
    score: Any = None
    rank: int = 0
    objectives: tuple[Any, ...] = ()
    window: Any = None
    number: int = 0

    def has(self, row: int, variable: int | None = None) -> bool:
        """Whether a row is in the match, as a variable."""
        return row in self.rows and (variable is None or variable in self.variables_of(row))

    def variables_of(self, row: int) -> list[int]:
        """The variables of one of its rows, -1 for an extra row."""
        return [variable for place, variable in zip(self.places, self.variables, strict=True) if place == row]

    @property
    def labelled(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Its rows and their variables, which identify it."""
        return self.places, self.variables


def listed(plan: Plan, tables: Sequence[pa.Table], compute: Compute, having: int | None = None) -> list[list[Listed]]:
    """The matches of some partitions, each in the engine's order, with TOP by window and rank.

    Args:
        plan: the plan, with all its options.
        tables: the rows of each partition.
        compute: computes scores, by one query.
        having: a row. Matches without it are left out before scores are computed.

    Raises:
        MatchRuntimeError: the query fails for these rows, or lists too many matches.
    """
    added = [Leaf(_MATCH, Plain("mno")), Leaf(_VECTOR, Plain("vector")), Leaf(_LABELS, Rows("rows", ALL_ROWS, (CLASSIFIER_COLUMN, _PLACE), True))]
    if plan.approximate is not None:
        added += [Leaf(_ERRORS, Errors("errors", plan.approximate.whole)), Leaf(_MISSING, Plain("missing"))]
    given = _of_own(plan, [*plan.leaves, *added])
    found = [match_table(given, table.append_column(_PLACE, pa.array(range(table.num_rows), pa.int64()))) for table in tables]
    if having is not None:
        found = [leaves.filter(pa.array([having in vector for vector in leaves[_VECTOR].to_pylist()], pa.bool_())) for leaves in found]
    matches = [_matches(plan, leaves) for leaves in found]
    if plan.approximate is not None and plan.adjacent:
        matches = [_with_substitutes(plan, some, table) for some, table in zip(matches, tables, strict=True)]
    if plan.ranking is not None and any(matches):
        matches = _scored(plan, plan.ranking, found, matches, compute)
    return matches


def _matches(plan: Plan, found: pa.Table) -> list[Listed]:
    """The matches of the engine's output for one partition, without scores."""
    ids = {name: i for i, name in enumerate(plan.variables)}
    matches = []
    for number, vector, labels in zip(*(found[name].to_pylist() for name in (_MATCH, _VECTOR, _LABELS)), strict=True):
        variables = tuple(-1 if label["a0"] is None else ids[label["a0"]] for label in labels)
        matches.append(Listed(tuple(vector), variables, tuple(label["a1"] for label in labels), number=number))
    if plan.approximate is None:
        return matches
    errors = zip(matches, found[_ERRORS].to_pylist(), found[_MISSING].to_pylist(), strict=True)
    return [replace(match, errors=error, missing=tuple(missing)) for match, error, missing in errors]


def _with_substitutes(plan: Plan, matches: list[Listed], table: pa.Table) -> list[Listed]:
    """The matches with their substituted rows. ERROR_KIND() needs an output row for each row of a match."""
    given = replace(_of_own(plan, [Leaf(_KIND, Plain("kind"))]), rows=SHOW_EMPTY, ranking=None, slide=None)
    if plan.ranking is not None:
        return matches  # the same rows in another order
    kinds = iter(match_table(given, table)[_KIND].to_pylist())
    return [replace(match, substituted=tuple(row for row in match.rows if next(kinds) == "SUBSTITUTED")) for match in matches]


def _of_own(plan: Plan, leaves: list[Leaf]) -> Plan:
    """The plan that returns one row for each match. Its search has limits, since it runs in this process."""
    limits = dict(plan.bounds)
    limits |= {name: min(value, limits.get(name, value)) for name, value in LIMITS.items()}
    return replace(
        plan, rows=ONE_ROW, leaves=tuple(leaves), outputs=(), leaf_places=(), pattern=shown(plan.pattern), prefilter=(), candidates=(), near=False,
        bounds=tuple(Bound(*limit) for limit in sorted(limits.items())),
    )  # fmt: skip


def _scored(plan: Plan, ranking: Ranking, found: list[pa.Table], matches: list[list[Listed]], compute: Compute) -> list[list[Listed]]:
    """The matches of each partition with their scores and ranks."""
    start = next((leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start"), "")
    parts = [leaves.drop_columns([_LABELS]).append_column(_PART, pa.array([part] * leaves.num_rows, pa.int64())) for part, leaves in enumerate(found)]
    table = pa.concat_tables(parts).combine_chunks()  # Spark takes the first chunk alone
    table = table.append_column(_NUMBER, pa.array(range(table.num_rows), pa.int64()))
    answered = compute(ranks_sql(plan, ranking), table).sort_by(_NUMBER)
    columns = {name: values_of(answered[name], plan.zone) for name in answered.column_names}
    out: list[list[Listed]] = []
    number = 0
    for some in matches:
        ranked = []
        for match in some:
            goals = tuple(columns[f"__g{n}"][number] for n in range(len(ranking.objectives)))
            rank = columns[RANK][number] if ranking.top else 0
            ranked.append(replace(match, score=columns[SCORE][number], rank=rank, objectives=goals, window=columns[start][number] if start else None))
            number += 1
        out.append(_best(ranked, ranking.top) if ranking.top else ranked)
    return out


def _best(matches: list[Listed], top: int) -> list[Listed]:
    """The best matches of each window, by window and rank. All windows of a clause have one type."""
    kept = [match for match in matches if match.rank <= top]
    return sorted(kept, key=lambda match: (0 if match.window is None else match.window, match.rank))


def ranks_sql(plan: Plan, ranking: Ranking) -> str:
    """The query that computes the scores and ranks of the rows of :data:`MATCHES`. A partition is ranked by itself."""
    start = [leaf.name for leaf in plan.leaves if leaf.spec.kind == "window_start"]
    rows = MATCHES
    below, _ = by_rank(plan)  # a score cannot read the rank
    if below.aggregates or below.over_arrays:
        named = [*(leaf.name for leaf in plan.leaves), *(column.name for column in (*below.aggregates, *below.over_arrays)), _NUMBER, _PART]
        unranked = replace(below, rows=ONE_ROW, ranking=None, partition=(), outputs=tuple(Computed(name, name) for name in named))
        rows = subquery(unranked, "", frame=rows)
    alone = ranking._replace(overall=False)
    columns = [_NUMBER, *start, SCORE, *(f"__g{i}" for i in range(len(ranking.objectives)))]
    if ranking.top:
        _, order = ranked_by(replace(plan, partition=()), alone)
        keys = set(plan.key_texts()) if ranking.overall else set()
        items = ", ".join(f"{text} {'DESC NULLS LAST' if down else 'ASC NULLS FIRST'}" for text, down in order if text not in keys)
        columns.append(f"dense_rank() OVER (PARTITION BY {', '.join([_PART, *start])} ORDER BY {items}) AS {RANK}")
    return f"SELECT {', '.join(columns)} FROM ({scored(alone, rows)})"
