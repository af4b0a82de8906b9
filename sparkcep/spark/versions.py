"""The versions of Spark that sparkcep works with."""

from __future__ import annotations

from sparkcep.errors import ToolError

_OLDEST, _BELOW = (4, 1), (5, 0)


class SparkVersionError(ToolError, RuntimeError):
    """A Spark of another version; the message says what to install."""

    code = 3


def wrong(version: str) -> str:
    """Says what is wrong with a version of Spark, and what to do; "" if sparkcep works with it."""
    first, second = (int("".join(filter(str.isdigit, part)) or 0) for part in f"{version}.0".split(".")[:2])
    if _OLDEST <= (first, second) < _BELOW:
        return ""
    return f"sparkcep needs Spark 4.1 or later 4.x, found {version}; install it with: pip install 'pyspark>=4.1,<5'"


def require_spark() -> None:
    """Raises SparkVersionError if the installed PySpark is of another version, ImportError if there is none."""
    import pyspark

    if problem := wrong(pyspark.__version__):
        raise SparkVersionError(problem)
