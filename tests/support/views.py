"""The temporary views of a session, which Spark's catalog cannot list where it interprets what it decodes."""

from __future__ import annotations


def temporary_views(spark) -> list[str]:
    """Their names, without those that belong to all sessions."""
    return [row.viewName for row in spark.sql("SHOW VIEWS").collect() if row.isTemporary]


def drop_views(spark) -> None:
    """Drops them."""
    for name in temporary_views(spark):
        spark.catalog.dropTempView(name)
