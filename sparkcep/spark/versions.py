"""The Spark versions that sparkcep supports.

Sessions, commands and the registration of the table function check the version.
"""

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
    """Spark has an unsupported version. The message says what to install."""

    code = 3


def wrong(version: str) -> str:
    """Says why a Spark version is not supported, and what to install. Returns "" if it is supported."""
    if _OLDEST <= _numbers(version) < _BELOW:
        return ""
    return f"sparkcep needs Spark 4.1 or later 4.x, found {version}; install it with: pip install 'pyspark>=4.1,<5'"


def version_of(session: SparkSession) -> tuple[int, int]:
    """Returns major and minor version of a session's Spark; in Spark Connect, of the server."""
    if session not in _sessions:
        _sessions[session] = _numbers(session.version)
    return _sessions[session]


def filters_in_windows(session: SparkSession) -> bool:
    """Whether window functions accept FILTER. Spark 4.1 refuses it."""
    return version_of(session) >= _FILTERED_WINDOWS


def _numbers(version: str) -> tuple[int, int]:
    first, second = (int("".join(filter(str.isdigit, part)) or 0) for part in f"{version}.0".split(".")[:2])
    return first, second


def require_spark() -> None:
    """Raises SparkVersionError if the installed PySpark is not supported, and ImportError if there is none."""
    import pyspark

    if problem := wrong(pyspark.__version__):
        raise SparkVersionError(problem)
