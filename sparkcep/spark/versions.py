"""The versions of Spark that sparkcep works with."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from sparkcep.errors import ToolError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OLDEST, _BELOW = (4, 1), (5, 0)
_FILTERED_WINDOWS = (4, 2)
_sessions: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()  # a Connect session asks its server


class SparkVersionError(ToolError, RuntimeError):
    """A Spark of another version; the message says what to install."""

    code = 3


def wrong(version: str) -> str:
    """Says what is wrong with a version of Spark, and what to do; "" if sparkcep works with it."""
    if _OLDEST <= _numbers(version) < _BELOW:
        return ""
    return f"sparkcep needs Spark 4.1 or later 4.x, found {version}; install it with: pip install 'pyspark>=4.1,<5'"


def version_of(session: SparkSession) -> tuple[int, int]:
    """The first two numbers of the version of a session's Spark, which in Spark Connect is that of the server."""
    if session not in _sessions:
        _sessions[session] = _numbers(session.version)
    return _sessions[session]


def filters_in_windows(session: SparkSession) -> bool:
    """Whether window functions take FILTER, which Spark 4.1 refuses."""
    return version_of(session) >= _FILTERED_WINDOWS


def _numbers(version: str) -> tuple[int, int]:
    first, second = (int("".join(filter(str.isdigit, part)) or 0) for part in f"{version}.0".split(".")[:2])
    return first, second


def require_spark() -> None:
    """Raises SparkVersionError if the installed PySpark is of another version, ImportError if there is none."""
    import pyspark

    if problem := wrong(pyspark.__version__):
        raise SparkVersionError(problem)
