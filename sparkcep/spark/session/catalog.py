"""Tables, columns and functions of a session, for completion.

``sparkcep shell`` and SQL cells use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from sparkcep.errors import ClauseError
from sparkcep.spark.errors.exceptions import RAISED, without_log
from sparkcep.spark.session.session import sql_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def columns_of(session: SparkSession) -> Callable[[str], list[str]]:
    """Returns a function that lists a table's column names without running a job. It takes the table as written in FROM.

    It returns an empty list for a table that Spark does not know or cannot read yet.
    """

    def columns(table: str) -> list[str]:
        try:
            with without_log():
                return sql_in(session, f"SELECT * FROM {table}").columns
        except (ClauseError, *RAISED):
            return []

    return columns


def tables_of(session: SparkSession) -> Callable[[], list[str]]:
    """Returns a function that lists the tables and views of the current database, with temporary ones."""

    def tables() -> list[str]:
        return sorted(row["tableName"] for row in session.sql("SHOW TABLES").collect())

    return tables


def functions_of(session: SparkSession) -> Callable[[], list[str]]:
    """Returns a function that lists the SQL functions of the session. The session is asked once."""

    @cache
    def functions() -> list[str]:
        names = (row["function"].rpartition(".")[2] for row in session.sql("SHOW FUNCTIONS").collect())
        return sorted({name for name in names if name.isidentifier()})

    return functions
