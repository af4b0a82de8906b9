"""Reads the query of a view, so that a question can go down into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from sparkcep.spark.why.partition import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def view_text(session: SparkSession, run: Run, name: str) -> str:
    """The query of a view, "" for a table and for a view that was made of a DataFrame.

    Args:
        session: the session.
        run: runs a statement.
        name: the name, as in SQL.
    """
    if hasattr(session, "_jsparkSession"):
        state = session._jsparkSession.sessionState()
        identifier = state.sqlParser().parseTableIdentifier(name)
        if state.catalog().isTempView(identifier):
            text = state.catalog().getTempViewOrPermanentTableMetadata(identifier).viewText()
            return text.get() if text.isDefined() else ""
    try:
        described = run(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except AnalysisException:  # another kind of relation, such as a table function
        return ""
    return next((row["data_type"] or "" for row in described if row["col_name"] == "View Text"), "")
