"""Keeps the last rows of a streaming query in memory. A notebook shows them while the query runs.

``notebook/live`` and ``sparkcep run --stream`` use it.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkcep.spark.connection import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@contextmanager
def computed(rows: DataFrame) -> Iterator[int]:
    """Computes all rows of a micro-batch once, and yields their number.

    An action that reads only some rows, such as ``show``, would skip tasks, and with them the states that these tasks write.
    """
    rows.persist()
    try:
        yield rows.count()
    finally:
        rows.unpersist()


class Taking:
    """Calls ``take`` with the rows and the number of each micro-batch.

    It keeps the exception of ``take`` in ``failure``. Spark would report it as a text of several tracebacks, and searches this text
    for an interrupt with a regular expression that overflows the stack.
    """

    def __init__(self, take: Callable[[DataFrame, int], None]) -> None:
        self.failure: Exception | None = None
        self._take = take

    def __call__(self, rows: DataFrame, number: int) -> None:
        from sparkcep.spark.errors.exceptions import without_log

        try:
            with without_log():  # the caller that watches the query reports errors
                self._take(rows, number)
        except Exception as error:
            self.failure = error
            raise RuntimeError(f"micro-batch {number} failed") from None

    def ended(self, query: StreamingQuery, seconds: float) -> bool:
        """Whether the query ends within ``seconds``. Raises the query's error."""
        try:
            return bool(query.awaitTermination(seconds))
        except Exception:
            if self.failure is not None:
                raise self.failure from None
            raise


@dataclass(frozen=True)
class Seen:
    """The output of a query so far: its last ``rows`` in order, and the ``total`` number of rows."""

    rows: tuple[tuple[Any, ...], ...] = ()
    total: int = 0


class Latest:
    """A sink that keeps the last ``limit`` rows."""

    def __init__(self, limit: int) -> None:
        self.seen = Seen()
        self._rows: deque[Row] = deque(maxlen=limit)

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Takes the rows of a micro-batch."""
        with computed(rows) as count:
            if count:
                self._rows.extend(rows.tail(self._rows.maxlen))
                self.seen = Seen(tuple(map(tuple, self._rows)), self.seen.total + count)


class _Published(Latest):
    """A :class:`Latest` in the process of a Connect server. Its clients read the rows, and any failure, as a view."""

    def __init__(self, limit: int, view: str) -> None:
        super().__init__(limit)
        self.view = view

    def __call__(self, rows: DataFrame, number: int) -> None:
        try:
            super().__call__(rows, number)
        except Exception as error:
            self._publish(rows, str(error))
            raise RuntimeError(f"micro-batch {number} failed") from None
        self._publish(rows, None)

    def _publish(self, rows: DataFrame, failure: str | None) -> None:
        from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

        fields = [StructField(f"c{i}", field.dataType) for i, field in enumerate(rows.schema.fields)]  # several may have one name
        schema = StructType([StructField("total", LongType()), StructField("rows", ArrayType(StructType(fields))), StructField("failure", StringType())])
        rows.sparkSession.createDataFrame([(self.seen.total, list(self.seen.rows), failure)], schema).createOrReplaceGlobalTempView(self.view)


class Running:
    """A running query, with its last rows."""

    def __init__(self, frame: DataFrame, limit: int, *, once: bool) -> None:
        """Starts the query with a temporary checkpoint. ``once``: it reads the available rows and ends."""
        self.session: SparkSession = frame.sparkSession
        self.view = f"sparkcep_latest_{uuid.uuid4().hex}" if is_connect(self.session) else ""
        self.sink = _Published(limit, self.view) if self.view else Latest(limit)
        self.taking = Taking(self.sink)
        # For an exception in a server's process, Spark's own error is all that the client receives.
        writer = frame.writeStream.foreachBatch(self.sink if self.view else self.taking)
        self.query: StreamingQuery = (writer.trigger(availableNow=True) if once else writer).start()

    def seen(self) -> Seen:
        """Returns the output so far."""
        if not self.view:
            return self.sink.seen
        row = self._published()
        return Seen() if row is None else Seen(tuple(map(tuple, row.rows)), row.total)

    def ended(self, seconds: float) -> bool:
        """Whether the query ends within ``seconds``. Raises the query's error."""
        from pyspark.errors import PySparkException

        try:
            return self.taking.ended(self.query, seconds)
        except PySparkException:
            row = self._published() if self.view else None
            if row is None or row.failure is None:
                raise
            raise PySparkException(row.failure) from None

    def _published(self) -> Row | None:
        if not self.session.catalog.tableExists(f"global_temp.{self.view}"):
            return None
        return self.session.table(f"global_temp.{self.view}").first()

    def stop(self) -> None:
        """Ends the query if it still runs. Its output so far is kept."""
        self.query.stop()

    def forget(self) -> None:
        """Removes the query's output from a server."""
        if self.view:
            self.session.catalog.dropGlobalTempView(self.view)
