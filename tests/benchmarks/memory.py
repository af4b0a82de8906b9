"""Peak memory of the driver's JVM and of its Python workers, while something runs. Where there is no /proc, heaps only."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# the pools of the heap are of a package the module system hides from Py4J
JVM_OPTIONS = "--add-opens=java.management/sun.management=ALL-UNNAMED"
_PROC = Path("/proc")
_PERIOD = 0.25  # seconds


class Peaks:
    """Peaks in MB of one run: ``heap`` (the sum of the heap's pools, garbage included), ``jvm`` (resident), ``worker`` (resident,
    the largest Python process below the JVM). What cannot be read is None."""

    def __init__(self) -> None:
        self.heap: float | None = None
        self.jvm: float | None = None
        self.worker: float | None = None


class Watcher:
    """Watches the JVM of a classic session started with ``JVM_OPTIONS``."""

    def __init__(self, spark) -> None:
        self._java = spark._jvm.java.lang
        self._jvm = int(self._java.ProcessHandle.current().pid())
        pools = self._java.management.ManagementFactory.getMemoryPoolMXBeans()
        self._heap = [pool for pool in pools if pool.getType().name() == "HEAP"]

    @contextmanager
    def watching(self) -> Iterator[Peaks]:
        """Peaks of what runs inside, set when it is done. It begins without garbage, and without workers that hold memory of other
        runs."""
        found = Peaks()
        for process in self._workers():
            os.kill(process, signal.SIGTERM)  # Spark replaces idle workers that have ended
        while self._workers():
            time.sleep(0.01)
        self._java.System.gc()
        for pool in self._heap:
            pool.resetPeakUsage()
        _forget(self._jvm)
        done = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(found, done), daemon=True)
        sampler.start()
        try:
            yield found
        finally:
            done.set()
            sampler.join()
            self._look(found)
            found.jvm = _resident_peak(self._jvm)
            found.heap = sum(pool.getPeakUsage().getUsed() for pool in self._heap) / 2**20

    def _sample(self, found: Peaks, done: threading.Event) -> None:
        """A worker may end before the run does."""
        while not done.wait(_PERIOD):
            self._look(found)

    def _look(self, found: Peaks) -> None:
        peaks = [peak for process in self._workers() if (peak := _resident_peak(process)) is not None]
        if peaks:
            found.worker = max(*peaks, found.worker or 0.0)

    def _workers(self) -> list[int]:
        """The JVM's grandchildren: it starts a daemon, which forks the workers. Ended ones that nobody has asked for yet are left
        out."""
        parents = {}
        for path in _PROC.glob("[0-9]*/stat"):
            try:
                state, parent = path.read_text().rpartition(")")[2].split()[:2]
            except OSError:  # has ended meanwhile
                continue
            if state != "Z":
                parents[int(path.parent.name)] = int(parent)
        return [process for process, parent in parents.items() if parents.get(parent) == self._jvm]


def _resident_peak(process: int) -> float | None:
    """VmHWM in MB; None if the process has ended or there is no /proc."""
    try:
        lines = Path(_PROC, str(process), "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


def _forget(process: int) -> None:
    """The peak begins anew at what is resident now (proc(5), clear_refs)."""
    path = Path(_PROC, str(process), "clear_refs")
    if path.exists():
        path.write_text("5")
