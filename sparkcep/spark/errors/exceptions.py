"""The exceptions that users of a session see.

Clause errors become Spark's own kind of exception, and Spark's errors get their position in the user's text. ``spark.sql``,
``match_recognize``, reports and the command line use this module.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import ParseException, PySparkException
from pyspark.errors.exceptions.base import QueryContext, QueryContextType
from pyspark.logger import PySparkLogger

from sparkcep.errors import ClauseError, printable
from sparkcep.redaction import Redaction
from sparkcep.spark.configured import redaction_of
from sparkcep.spark.errors.reword import (
    ErrorText,
    Failure,
    clause_error,
    immediate,
    in_words_of,
    is_in,
    reworded,
    without_clause,
)
from sparkcep.sql.rewrite.rewrite import known

try:
    from py4j.protocol import Py4JJavaError
except ImportError:  # an installation with Spark Connect only
    RAISED: tuple[type[Exception], ...] = (PySparkException,)
else:
    RAISED = (PySparkException, Py4JJavaError)  # raised by a statement; Py4JJavaError if PySpark lacks a class for it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sparkcep.sql.rewrite.places import Places

_PREFIX = "SPARKCEP."


class ClauseParseException(ClauseError, ParseException):
    """A :class:`~sparkcep.errors.ClauseError` that is also a :class:`pyspark.errors.ParseException`.

    ``getCondition()``, ``getSqlState()`` and ``getMessageParameters()`` answer as they do for Spark's own errors.
    """

    def __init__(self, error: ClauseError, description: str) -> None:
        ParseException.__init__(self, message=description, errorClass=error.error_class)
        self.__dict__ |= vars(error)
        self._description = description
        self.args = (description,)

    @classmethod
    def of(cls, error: ClauseError, sql: str) -> ClauseParseException:
        """Returns ``error`` with an excerpt of the statement ``sql`` at its position."""
        return cls(error, error.over(sql))

    @classmethod
    def not_begun(cls, sql: str) -> ClauseParseException | None:
        """Returns the error of a statement that Spark cannot parse if it was meant to have a clause, else None."""
        error = without_clause(sql)
        return None if error is None else cls.of(error, sql)

    @classmethod
    def of_immediate(cls, sql: str) -> ClauseParseException | None:
        """Returns the error of EXECUTE IMMEDIATE with a clause in its text, if the JVM cannot parse it, else None."""
        error = immediate(sql)
        return None if error is None else cls.of(error, sql)

    @classmethod
    def from_spark(cls, raised: PySparkException, sql: str = "") -> ClauseParseException | None:
        """Returns the clause error that the JVM's parser, or ``analyze``, raised as ``raised``; None for Spark's own errors.

        ``sql``: the statement, if the clause is its own.
        """
        condition = raised.getCondition() or ""
        if condition == "TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON":
            error = clause_error(str(raised))
            return None if error is None else cls.shown(error, sql)
        if not condition.startswith(_PREFIX):
            return None
        parameters = raised.getMessageParameters() or {}
        error = ClauseError(
            condition.removeprefix(_PREFIX), parameters.get("message", ""), sqlstate=raised.getSqlState() or "",
            line=int(parameters.get("line", 0)), column=int(parameters.get("column", 0)), fragment=parameters.get("fragment", ""),
        )
        return cls.shown(error, sql)

    def in_words_of(self, places: Places, sql: str) -> ClauseParseException:
        """Returns this error with the user's words instead of the rewriter's column names, at its position in the user's text."""
        error = in_words_of(self, places, sql)
        return self if error is self else self.of(error, sql)

    @classmethod
    def shown(cls, error: ClauseError, sql: str) -> ClauseParseException:
        """Returns ``error`` with an excerpt if its position lies in ``sql``; it may lie in a statement inside."""
        return cls(error, error.over(sql) if is_in(error, sql) else str(error))

    def __str__(self) -> str:
        return self._description

    def getMessage(self) -> str:
        return self._description

    def getSqlState(self) -> str:
        return self.sqlstate

    def getMessageParameters(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in ("message", "line", "column", "fragment")}


class StatementError:
    """Mixin for the class of a Spark error that was reworded for the user's statement.

    Such an error has ``line``, ``column`` and ``fragment`` like a ClauseError, and its position in the query context. Class,
    condition, SQLSTATE and parameters remain Spark's.
    """

    text: ErrorText
    line: int
    column: int
    fragment: str

    def __str__(self) -> str:
        return str(self.text)

    def getMessage(self) -> str:
        return str(self.text)

    def getQueryContext(self) -> list[QueryContext]:
        return [_Place(self.text)] if self.text.span is not None else []


class _Place(QueryContext):
    """The position of a statement's error, as Spark's query context."""

    def __init__(self, text: ErrorText) -> None:
        assert text.span is not None
        self._text, self._span = text, text.span

    def contextType(self) -> QueryContextType:
        return QueryContextType.SQL

    def _nothing(self) -> str:
        """Answers questions that do not apply to a statement: the enclosing view, a line of the caller's program."""
        return ""

    objectType = objectName = callSite = pysparkFragment = pysparkCallSite = _nothing

    def startIndex(self) -> int:
        return self._span.start

    def stopIndex(self) -> int:
        return self._span.end - 1

    def fragment(self) -> str:
        return self._text.redact(self._span.of(self._text.statement))

    def summary(self) -> str:
        return str(self._text).removeprefix(self._text.redact(printable(self._text.message)))


def redacted(raised: PySparkException, redact: Redaction) -> PySparkException:
    """Returns an error with redacted text, fragment and query context if sparkcep wrote its text.

    Other errors are returned as they are, because Spark redacts them.
    """
    if isinstance(raised, StatementError):
        return with_text(raised, replace(raised.text, redact=redact)) if redact.pattern else raised
    if not (redact.pattern and isinstance(raised, ClauseParseException)):
        return raised
    error = ClauseError(
        raised.error_class.removeprefix(_PREFIX), redact(raised.message), sqlstate=raised.sqlstate, line=raised.line, column=raised.column,
        fragment=redact(raised.fragment),
    )
    return ClauseParseException(error, redact.of_error(str(raised)))


@contextmanager
def redacting(of: SparkSession | DataFrame) -> Iterator[None]:
    """Redacts the errors of statements that are raised in its scope. ``of``: the session, or a DataFrame of it."""
    try:
        yield
    except PySparkException as raised:
        raise redacted(raised, redaction_of(getattr(of, "sparkSession", of))) from raised.__cause__


@functools.cache
def _class_of(kind: type) -> type:
    return type(kind.__name__, (StatementError, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def over_statement(raised: PySparkException, statement: str, places: Places | None) -> PySparkException:
    """Returns ``raised`` as an error of ``statement``. ``places``: see :func:`sparkcep.spark.errors.reword.reworded`."""
    if isinstance(raised, (ClauseError, StatementError)):
        return raised
    text = reworded(failure_of(raised), statement, places)
    if isinstance(text, ClauseError):
        return ClauseParseException.of(text, statement)
    return with_text(raised, text)


def with_text(raised: PySparkException, text: ErrorText) -> PySparkException:
    """Returns a copy of ``raised`` with another text."""
    error = Exception.__new__(type(raised) if isinstance(raised, StatementError) else _class_of(type(raised)))
    error.__dict__ |= raised.__dict__ | {"text": text, "line": text.line, "column": text.column, "fragment": text.fragment}
    error.args = (str(text),)
    return error


def shown(error: Exception, statement: str) -> str:
    """Returns the text to show for an exception that Spark, or sparkcep inside Spark, raised for ``statement``."""
    if isinstance(error, StatementError):
        return printable(str(error))
    if isinstance(error, ClauseParseException):
        return str(error)
    if isinstance(error, ClauseError):
        return error.over(statement)
    text = clause_error(_described(error)) or reworded(failure_of(error), statement, known(statement))
    return text.over(statement) if isinstance(text, ClauseError) else printable(str(text))


def failure_of(raised: Any) -> Failure:
    """Returns an exception of Spark's as plain data."""
    if hasattr(raised, "java_exception"):
        return _failure_in_java(raised.java_exception)
    message = _described(raised)
    contexts = [c for c in raised.getQueryContext() or () if "SQL" in str(c.contextType()).upper()]
    parameters = raised.getMessageParameters() or {}
    return Failure(raised.getCondition() or "", message, parameters, tuple((c.fragment(), c.startIndex()) for c in contexts))


def _failure_in_java(raised: Any) -> Failure:
    """Returns a Java exception as plain data, for which PySpark lacks a class."""
    from py4j.protocol import Py4JError

    message = raised.getMessage() or raised.toString()
    try:
        condition, parameters = raised.getCondition(), dict(raised.getMessageParameters())
        contexts = [c for c in raised.getQueryContext() if "SQL" in c.contextType().toString()]
    except Py4JError:  # not an exception of Spark's
        return Failure("", message)
    return Failure(condition or "", message, parameters, tuple((c.fragment(), c.startIndex()) for c in contexts))


def _described(raised: Any) -> str:
    """Returns the message with all additions of Spark's, but without a stack trace."""
    return getattr(raised, "_desc", None) or getattr(raised, "_message", None) or str(raised)


_unlogged = threading.local()


@contextmanager
def without_log() -> Iterator[None]:
    """Keeps pyspark, in this thread, from logging the errors that are reworded: it would log their plans and stacks."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_is_logged)  # adding it again changes nothing
    before, _unlogged.on = getattr(_unlogged, "on", False), True
    try:
        yield
    finally:
        _unlogged.on = before


def _is_logged(record: logging.LogRecord) -> bool:
    return not getattr(_unlogged, "on", False)
