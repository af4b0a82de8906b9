"""Clause errors as Spark users know them, and Spark's own errors with their place in what the user wrote."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import ParseException, PySparkException
from pyspark.errors.exceptions.base import QueryContext, QueryContextType
from pyspark.logger import PySparkLogger

from sparkcep.errors import ClauseError
from sparkcep.spark.rewriting import excerpt, known
from sparkcep.spark.told import Failure, Told, clause_error, spots, tell

if TYPE_CHECKING:
    from sparkcep.sql.places import Places

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
    def from_spark(cls, raised: PySparkException, sql: str = "") -> ClauseParseException | None:
        """The clause error that the JVM's parser, or ``analyze``, raised as ``raised``; None if it is an error of Spark's own.

        ``sql``: the statement, where the clause is its own.
        """
        condition = raised.getCondition() or ""
        if condition == "TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON":
            error = clause_error(str(raised))
            return None if error is None else cls._shown(error, sql)
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
        return cls._shown(error, sql)

    @classmethod
    def _shown(cls, error: ClauseError, sql: str) -> ClauseParseException:
        """``error`` with its line, if its place is one of ``sql``: it may be one of a statement inside."""
        line = (sql.split("\n")[error.line - 1 : error.line] or [""])[0] if error.line else ""
        here = bool(error.fragment) and line[error.column - 1 :].startswith(error.fragment)
        return cls(error, f"{error}{excerpt(sql, error) if here else ''}")

    def __str__(self) -> str:
        return self._description

    def getMessage(self) -> str:
        return self._description

    def getSqlState(self) -> str:
        return self.sqlstate

    def getMessageParameters(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in ("message", "line", "column", "fragment")}


class StatementError:
    """What an error of Spark's has in addition once it is told over the user's statement: ``line``, ``column`` and ``fragment``, as a ClauseError, and the
    place in its query context. Class, condition, SQLSTATE and parameters stay Spark's."""

    told: Told

    @property
    def line(self) -> int:
        return self.told.line

    @property
    def column(self) -> int:
        return self.told.column

    @property
    def fragment(self) -> str:
        return self.told.fragment

    def __str__(self) -> str:
        return str(self.told)

    def getMessage(self) -> str:
        return str(self.told)

    def getQueryContext(self) -> list[QueryContext]:
        return [_Place(self.told)] if self.told.span is not None else []


class _Place(QueryContext):
    """The place of a statement's error."""

    def __init__(self, told: Told) -> None:
        assert told.span is not None
        self._told, self._span = told, told.span

    def contextType(self) -> QueryContextType:
        return QueryContextType.SQL

    def objectType(self) -> str:
        return ""

    def objectName(self) -> str:
        return ""

    def startIndex(self) -> int:
        return self._span.start

    def stopIndex(self) -> int:
        return self._span.end - 1

    def fragment(self) -> str:
        return self._span.of(self._told.statement)

    def callSite(self) -> str:
        return ""

    def pysparkFragment(self) -> str | None:
        return None

    def pysparkCallSite(self) -> str | None:
        return None

    def summary(self) -> str:
        return str(self._told).removeprefix(self._told.message)


@functools.cache
def _class_of(kind: type) -> type:
    return type(kind.__name__, (StatementError, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def over_statement(raised: PySparkException, statement: str, places: Places | None) -> PySparkException:
    """``raised`` as an error of ``statement``. ``places``: see :func:`sparkcep.spark.told.tell`."""
    if isinstance(raised, (ClauseError, StatementError)):
        return raised
    told = tell(failure_of(raised), statement, places)
    if isinstance(told, ClauseError):
        return ClauseParseException.of(told, statement)
    return retold(raised, told)


def retold(raised: PySparkException, told: Told) -> PySparkException:
    """``raised`` with another text."""
    error = Exception.__new__(type(raised) if isinstance(raised, StatementError) else _class_of(type(raised)))
    error.__dict__.update(raised.__dict__)
    error.args = (str(told),)
    error.told = told
    return error


def shown(error: Exception, statement: str) -> str:
    """What to show of an exception that Spark, or sparkcep inside it, raised over ``statement``, when it was analysed or later, when it ran."""
    if isinstance(error, StatementError):
        return str(error)
    if isinstance(error, ClauseError):
        return str(error) if "== SQL" in str(error) else f"{error}{excerpt(statement, error)}"
    ours = clause_error(_described(error))
    if ours is not None:
        return f"{ours}{excerpt(statement, ours)}"
    told = tell(failure_of(error), statement, known(statement))
    return f"{told}{excerpt(statement, told)}" if isinstance(told, ClauseError) else str(told)


def failure_of(raised: Any) -> Failure:
    """What Spark says in an exception, as plain data."""
    message = _described(raised)
    contexts = [c for c in raised.getQueryContext() or () if "SQL" in str(c.contextType()).upper()]
    parameters = raised.getMessageParameters() or {}
    found = spots([(c.fragment(), c.startIndex()) for c in contexts], parameters, message)
    return Failure(raised.getCondition() or "", message, parameters, found)


def _described(raised: Any) -> str:
    """The message with all that Spark appends to it, without a stack."""
    return getattr(raised, "_desc", None) or getattr(raised, "_message", None) or str(raised)


_unlogged = threading.local()


@contextmanager
def without_log() -> Iterator[None]:
    """Keeps pyspark from logging, in this thread, the errors that are told anew: with plan and stack."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_is_logged)  # once, however often it is added
    before, _unlogged.on = getattr(_unlogged, "on", False), True
    try:
        yield
    finally:
        _unlogged.on = before


def _is_logged(record: logging.LogRecord) -> bool:
    return not getattr(_unlogged, "on", False)
