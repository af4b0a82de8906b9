"""Finds the Spark session of a notebook: its own, the active one, or a new local one.

SQL cells, their completion and converted Databricks notebooks use it.
"""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from sparkcep.notebook.cell import CellError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_enabled: weakref.WeakSet[Any] = weakref.WeakSet()


def session_of(namespace: MutableMapping[str, Any], *, start: bool = True) -> SparkSession | None:
    """Returns the variable ``spark``, else the active session, else a new local session, which becomes the variable ``spark``.

    With ``start`` False, it returns None instead of a new session. The clause is enabled in the session. Raises CellError if the
    local session cannot start.
    """
    session = _existing(namespace)
    if session is None:
        if not start:
            return None
        session = namespace["spark"] = _local()
    if session not in _enabled:
        from sparkcep.spark.session.session import enable

        enable(session)
        _enabled.add(session)
    return session


def _existing(namespace: MutableMapping[str, Any]) -> SparkSession | None:
    from pyspark.sql import SparkSession

    for session in (namespace.get("spark"), SparkSession.getActiveSession()):
        if session is not None and hasattr(session, "sql") and hasattr(session, "conf") and not _stopped(session):
            return session
    return None


def _stopped(session: Any) -> bool:
    from sparkcep.spark.connection import is_connect

    return session.is_stopped if is_connect(session) else session._sc._jsc is None


def _local() -> SparkSession:
    from pyspark.errors import PySparkException

    from sparkcep.spark.java import JavaNotFoundError
    from sparkcep.spark.session.local import start_spark
    from sparkcep.spark.stream.start_checks import PROVIDER, ROCKSDB

    try:
        # The cell itself shows the job's progress and errors.
        return start_spark("sparkcep notebook", {"spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL", PROVIDER: ROCKSDB})
    except (JavaNotFoundError, PySparkException) as error:
        raise CellError(str(error)) from None
