"""Two ways to one result, for many queries in one job."""

from __future__ import annotations

from collections.abc import Mapping

from sparkcep.settings import Settings
from sparkcep.spark.exec.sampling import Sampler
from sparkcep.sql.rewrite.rewrite import translated


def rewritten(spark, statement: str, settings: Settings) -> str:
    """Plain SQL for a statement, as ``spark.sql`` would have it with these settings."""
    places = translated(statement, settings=settings, named_markers=False, choose=Sampler.of(spark, settings, spark.sql))
    return statement if places is None else places.rewritten


def differing(spark, pairs: Mapping[str, tuple[str, str]]) -> tuple[set[str], set[str]]:
    """Of pairs of plain queries by name: the names of those whose rows differ, in any order, and of those that have rows."""
    parts = [
        f"SELECT '{name}' AS name, {sign} AS sign, to_json(struct(*)) AS row FROM ({query})"
        for name, pair in pairs.items()
        for sign, query in zip((1, -1), pair, strict=True)
    ]
    counted = "count_if(sign > 0) AS rows, sum(sign) AS more"
    spark.sql(f"SELECT name, row, {counted} FROM ({' UNION ALL '.join(parts)}) GROUP BY ALL").createOrReplaceTempView("compared")
    told = spark.sql("SELECT name, sum(rows), count_if(more != 0) FROM compared GROUP BY name").collect()
    return {name for name, _, wrong in told if wrong}, {name for name, rows, _ in told if rows}
