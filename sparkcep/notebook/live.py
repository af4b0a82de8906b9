"""Shows what a stream gives while its query runs: the last rows, as a table or a picture that changes in place."""

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
    """The last rows of a stream. ``total`` is the number of all that came; ``frame`` is the stream itself."""

    def __init__(self, frame: DataFrame | None, columns: Sequence[str], seen: Seen) -> None:
        super().__init__(columns, seen.rows, seen.total > len(seen.rows), frame)
        self.total = seen.total

    @property
    def count(self) -> str:
        return f"the last {len(self.rows):,} of {self.total:,} rows (--limit shows more)" if self.more else super().count

    def after(self, total: int) -> LastRows | None:
        """Those of its rows that came after the first ``total``; None where none did."""
        fresh = self.total - total
        return LastRows(self.frame, self.columns, Seen(tuple(self.rows[-fresh:]), fresh)) if fresh else None


@dataclass(frozen=True)
class Now:
    """A query at a moment: what it gave up to then, and a line of its progress."""

    seen: Seen
    progress: str = "the query has been started"


class Following:
    """Runs a query in a thread of its own and looks at it, so that an interrupt never meets a call to Spark.

    ``now`` is the last look; ``failure`` is what ended the query.
    """

    def __init__(self, frame: DataFrame, limit: int, *, once: bool) -> None:
        self.now = Now(Seen())
        self.failure: BaseException | None = None
        self.ended, self._stop = threading.Event(), threading.Event()
        self._frame, self._limit, self._once = frame, limit, once

    def stop(self) -> None:
        """Asks for the query's end."""
        self._stop.set()

    def run(self) -> None:
        """Runs the query until it ends or is asked to."""
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
    """Runs the query of a stream until it ends, its time is over, or the cell is interrupted, and shows what it gives.

    Gives what stays: the last table or picture, with words for how it ended. Raises what the query failed with.
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
        pass  # this is how a query without an end is ended
    if not following.ended.is_set():
        how = "stopped"
        following.stop()
        following.ended.wait()  # a second interrupt gets out of here
    thread.join()
    if following.failure is not None:
        raise following.failure
    return shown(following.now.seen), f"{how}: {following.now.progress}"


def _show(following: Following, shown: Callable[[Seen], Any], reporter: Reporter, until: float) -> None:
    """Shows the query, until it ends or a time has come."""
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
    """What draws rows of a stream, and gives a table while there are none. Raises CellError where columns for it are missing."""
    columns = picture.kinds(schema)
    axes = picture.choose(columns, options)

    def drawn(seen: Seen) -> Any:
        import pandas as pd

        if not seen.rows:
            return LastRows(frame, schema.names, seen)
        return picture.draw(pd.DataFrame.from_records(seen.rows, columns=schema.names), axes, columns)

    return drawn
