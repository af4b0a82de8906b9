"""Runs a statement while the notebook stays responsive: shows the progress of its Spark job, and cancels the job on interrupt.

The statement runs in its own thread, and a second thread polls its progress and cancels it. So the notebook's thread is never
interrupted inside a call to the JVM or to a Connect server, which would leave an answer unread.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sparkcep.notebook.cell import Interrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
_THREAD = "sparkcep cell"
_PATIENCE = 0.3  # seconds before the first progress report, and between reports
_DESCRIBED = 100  # characters


@dataclass(frozen=True)
class Progress:
    """The tasks of the stages known so far: how many are completed, how many exist, how many run now."""

    completed: int = 0
    tasks: int = 0
    running: int = 0


def run(session: SparkSession, work: Callable[[], T], statement: str, show: Callable[[Progress], None]) -> T:
    """Returns the result of ``work()``, or raises its error. Calls ``show`` about three times a second after a short delay.

    The redacted beginning of ``statement`` is the job's description in Spark's UI. On KeyboardInterrupt it cancels the job and then
    raises Interrupted.
    """
    from pyspark import InheritableThread

    from sparkcep.spark.connection import is_connect
    from sparkcep.spark.errors.exceptions import without_log

    jobs = _RemoteJobs(session) if is_connect(session) else _ClassicJobs(session)
    ended, cancel = threading.Event(), threading.Event()
    got: list[T] = []
    raised: list[BaseException] = []
    seen = Progress()

    def target() -> None:
        try:
            with without_log():  # the cell shows its errors
                jobs.begin(statement)
                try:
                    got.append(work())
                finally:
                    jobs.end()
        except BaseException as error:  # raised again in the caller's thread
            raised.append(error)
        finally:
            ended.set()

    def watch() -> None:
        nonlocal seen
        while not ended.wait(_PATIENCE):
            if cancel.is_set():
                jobs.cancel()  # repeatedly, because the statement's next job may start after the call
            else:
                seen = jobs.progress()

    threads = [InheritableThread(target=f, session=session, name=_THREAD) for f in (target, watch)]
    try:
        threads[0].start()
        if not ended.wait(_PATIENCE):
            threads[1].start()
            while not ended.wait(_PATIENCE):
                show(seen)
    except KeyboardInterrupt:
        cancel.set()
        if threads[1].ident is None:
            threads[1].start()
        ended.wait()  # a second interrupt ends the wait
        raise Interrupted from None
    for thread in threads:
        if thread.ident is not None:
            thread.join()
    if raised:
        raise raised[0]
    return got[0]


class _ClassicJobs:
    """The jobs of a session with a JVM, which share a job group."""

    def __init__(self, session: SparkSession) -> None:
        self.session, self.context = session, session.sparkContext
        self.group = f"sparkcep-{uuid.uuid4()}"

    def begin(self, statement: str) -> None:
        from sparkcep.spark.configured import redaction_of

        self.context.setJobGroup(self.group, " ".join(redaction_of(self.session)(statement).split())[:_DESCRIBED])

    def end(self) -> None:
        """Does nothing: the group belongs to the thread, which ends."""

    def cancel(self) -> None:
        self.context.cancelJobGroup(self.group)

    def progress(self) -> Progress:
        tracker = self.context.statusTracker()
        jobs = [tracker.getJobInfo(i) for i in tracker.getJobIdsForGroup(self.group)]
        stages = [tracker.getStageInfo(s) for job in jobs if job for s in job.stageIds]
        known = [stage for stage in stages if stage]
        return Progress(*(sum(getattr(s, name) for s in known) for name in ("numCompletedTasks", "numTasks", "numActiveTasks")))


class _RemoteJobs:
    """The operations of a Spark Connect session, which share a tag. The server sends their progress."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.tag = f"sparkcep-{uuid.uuid4()}"
        self.seen = Progress()

    def begin(self, statement: str) -> None:
        self.session.addTag(self.tag)
        self.session.registerProgressHandler(self._hear)

    def end(self) -> None:
        self.session.removeProgressHandler(self._hear)

    def cancel(self) -> None:
        self.session.interruptTag(self.tag)

    def progress(self) -> Progress:
        return self.seen

    def _hear(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = list(stages or ())
        self.seen = Progress(sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known), inflight_tasks)
