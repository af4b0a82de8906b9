"""Reads the query of a view, so that a question can go down into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException

from sparkcep.spark.why.partition import Run
from sparkcep.spark.why.stored import Names, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOME = ("View Catalog and Namespace", "View Catalog And Namespace")


def view_of(session: SparkSession, run: Run, name: str) -> View | None:
    """A view, None for a table and for a view that was made of a DataFrame.

    Args:
        session: the session.
        run: runs a statement.
        name: the name, as in SQL.
    """
    if hasattr(session, "_jsparkSession"):
        state = session._jsparkSession.sessionState()
        try:
            identifier = state.sqlParser().parseTableIdentifier(name)
        except ParseException:  # a name of three parts is not that of a temporary view
            identifier = None
        if identifier is not None and state.catalog().isTempView(identifier):
            text = state.catalog().getTempViewOrPermanentTableMetadata(identifier).viewText()
            return View(text.get()) if text.isDefined() else None
    try:
        described = run(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except AnalysisException:  # another kind of relation, such as a table function
        return None
    found = {row["col_name"]: row["data_type"] or "" for row in described}
    text = found.get("View Text", "")
    return View(text, next((found[word] for word in _HOME if word in found), "")) if text else None


def names_of(run: Run) -> Names:
    """How the session looks up names."""
    home = run("SELECT concat_ws('.', current_catalog(), current_database())").collect()[0][0]
    return Names(home, frozenset(row["viewName"].lower() for row in run("SHOW VIEWS").collect() if row["isTemporary"]))
