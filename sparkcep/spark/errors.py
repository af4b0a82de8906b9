"""Clause errors as Spark users know them."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException

from sparkcep.errors import ClauseError
from sparkcep.spark.rewriting import excerpt
from sparkcep.spark.told import clause_error

_PREFIX = "SPARKCEP."


class ClauseParseException(ClauseError, ParseException):
    """A :class:`~sparkcep.errors.ClauseError` that is also a :class:`pyspark.errors.ParseException`.

    ``getCondition()``, ``getSqlState()`` and ``getMessageParameters()`` answer as they do for Spark's own errors.
    """

    def __init__(self, error: ClauseError, description: str) -> None:
        ParseException.__init__(self, message=description, errorClass=error.error_class)
        for name in ("error_class", "sqlstate", "message", "line", "column", "fragment"):
            setattr(self, name, getattr(error, name))
        self._description = description
        self.args = (description,)

    @classmethod
    def of(cls, error: ClauseError, sql: str) -> ClauseParseException:
        """``error`` with its place in the statement ``sql`` shown."""
        return cls(error, f"{error}{excerpt(sql, error)}")

    @classmethod
    def from_spark(cls, raised: AnalysisException) -> ClauseParseException | None:
        """The clause error that the JVM's parser, or ``analyze``, raised as ``raised``; None if it is an error of Spark's own."""
        condition = raised.getCondition() or ""
        if condition == "TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON":
            error = clause_error(str(raised))
            return None if error is None else cls(error, str(error))
        if not condition.startswith(_PREFIX):
            return None
        told = raised.getMessageParameters() or {}
        error = ClauseError(
            condition.removeprefix(_PREFIX),
            told.get("message", ""),
            sqlstate=raised.getSqlState() or "",
            line=int(told.get("line", 0)),
            column=int(told.get("column", 0)),
            fragment=told.get("fragment", ""),
        )
        return cls(error, str(error))

    def __str__(self) -> str:
        return self._description

    def getMessage(self) -> str:
        return self._description

    def getSqlState(self) -> str:
        return self.sqlstate

    def getMessageParameters(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in ("message", "line", "column", "fragment")}
