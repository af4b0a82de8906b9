"""Shows the last rows of a stream while its query runs, as a table or a picture that is updated in place.

``notebook/magic`` uses it for results that are streams.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkcep.notebook import picture
from sparkcep.notebook.cell import Options
from sparkcep.notebook.progress import Reporter
from sparkcep.notebook.table import Table
from sparkcep.spark.stream.command import progress_text, ran_of
from sparkcep.spark.stream.memory_sink import Running, Seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_LOOK = 0.5  # seconds between two looks at a query


class LastRows(Table):
    """The last rows of a stream. ``total`` is the number of rows so far; ``frame`` is the stream itself."""

    def __init__(self, frame: DataFrame | None, columns: Sequence[str], seen: Seen) -> None:
        super().__init__(columns, seen.rows, seen.total > len(seen.rows), frame)
        self.total = seen.total

    @property
    def count(self) -> str:
        return f"the last {len(self.rows):,} of {self.total:,} rows (--limit shows more)" if self.more else super().count

    def after(self, total: int) -> LastRows | None:
        """Returns the rows that arrived after the first ``total``, or None."""
        fresh = self.total - total
        return LastRows(self.frame, self.columns, Seen(tuple(self.rows[-fresh:]), fresh)) if fresh else None


@dataclass(frozen=True)
class Now:
    """A query at one moment: its output so far, and a line about its progress."""

    seen: Seen
    progress: str = "the query has been started"


class Following:
    """Runs a query in its own thread and polls it, so that an interrupt never hits a call to Spark.

    ``now`` is the last poll; ``failure`` is the error that ended the query.
    """

    def __init__(self, frame: DataFrame, limit: int, *, once: bool) -> None:
        self.now = Now(Seen())
        self.failure: BaseException | None = None
        self.ended, self._stop = threading.Event(), threading.Event()
        self._frame, self._limit, self._once = frame, limit, once

    def stop(self) -> None:
        """Requests the query's end."""
        self._stop.set()

    def run(self) -> None:
        """Runs the query until it ends, or until its end is requested."""
        from sparkcep.spark.errors.exceptions import without_log

        try:
            with without_log():  # the cell shows its errors
                self._run(Running(self._frame, self._limit, once=self._once))
        except BaseException as error:  # raised again in the cell's thread
            self.failure = error
        finally:
            self.ended.set()

    def _run(self, running: Running) -> None:
        try:
            while not self._stop.is_set() and not running.ended(_LOOK):
                self._look(running)
        finally:
            running.stop()
            self._look(running)
            running.forget()

    def _look(self, running: Running) -> None:
        ran = ran_of(running.query)
        self.now = Now(running.seen(), progress_text(ran[-1]) if ran else self.now.progress)


def follow(frame: DataFrame, schema: StructType, options: Options, reporter: Reporter) -> tuple[Any, str]:
    """Runs the query of a stream and shows its output until it ends, times out, or the cell is interrupted.

    Returns the last table or picture, and a text about how the query ended. Raises the query's error.
    """
    from pyspark import InheritableThread

    shown = _pictures(frame, schema, options) if options.plot else functools.partial(LastRows, frame, schema.names)
    following = Following(frame, options.rows, once=options.once)
    thread = InheritableThread(target=following.run, session=frame.sparkSession, name="sparkcep stream")
    until = math.inf if options.seconds is None else time.monotonic() + options.seconds
    how = "done"
    try:
        thread.start()
        _show(following, shown, reporter, until)
    except KeyboardInterrupt:
        pass  # the usual end of a query without a limit
    if not following.ended.is_set():
        how = "stopped"
        following.stop()
        following.ended.wait()  # a second interrupt ends the wait
    thread.join()
    if following.failure is not None:
        raise following.failure
    return shown(following.now.seen), f"{how}: {following.now.progress}"


def _show(following: Following, shown: Callable[[Seen], Any], reporter: Reporter, until: float) -> None:
    """Shows the query until it ends or ``until`` is reached."""
    before: Now | None = None
    below: Any = None
    while not following.ended.wait(max(0.0, min(_LOOK, until - time.monotonic()))):
        now = following.now
        if now != before:
            total = before.seen.total if before is not None else 0
            if before is None or now.seen.total > total:
                below = shown(now.seen)
            reporter.live(now.progress, below, below.after(total) if isinstance(below, LastRows) else None)
            before = now
        if time.monotonic() >= until:
            return


def _pictures(frame: DataFrame, schema: StructType, options: Options) -> Callable[[Seen], Any]:
    """Returns a function that draws rows of a stream, or shows a table while there are none.

    Raises CellError if columns are missing.
    """
    columns = picture.kinds(schema)
    axes = picture.choose(columns, options)

    def drawn(seen: Seen) -> Any:
        import pandas as pd

        if not seen.rows:
            return LastRows(frame, schema.names, seen)
        return picture.draw(pd.DataFrame.from_records(seen.rows, columns=schema.names), axes, columns)

    return drawn
