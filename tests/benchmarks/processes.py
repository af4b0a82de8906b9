"""Processor time of programs that start others, as Linux tells it. It needs the standard library alone, since another Python reads
it, too (flink.py)."""

from __future__ import annotations

import os
from pathlib import Path


def used(top: int) -> dict[int, float]:
    """Seconds of processor time of a process and of all that it started, by number, as far as they have not ended without a parent
    that asked; none where there is no /proc."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # has ended meanwhile
            continue
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below, todo = {}, [top]
    while todo:
        process = todo.pop()
        if process in found:
            below[process] = found[process][1] / os.sysconf("SC_CLK_TCK")
        todo += [p for p, (parent, _) in found.items() if parent == process]
    return below
