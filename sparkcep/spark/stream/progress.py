"""Reads the figures of clauses over streams in a query's progress, and its last micro-batch in its checkpoint.

The command ``run``, reports, ``sparkcep.why`` and the checks of checkpoints use it.
"""

from __future__ import annotations

from typing import Any

OPERATOR_NAME = "matchRecognize"  # the JVM operator's name in Spark's progress and in checkpoints
OBSERVED = "sparkcep"  # a program of DataFrames is observed under this name and the number of its clause


def figures(progress: Any) -> list[dict[str, int]]:
    """Returns the metrics of each clause over a stream in a query's progress, by name, with ``lateRows``, for any operator."""
    found = [
        {**operator["customMetrics"], "lateRows": operator["numRowsDroppedByWatermark"]}
        for operator in progress["stateOperators"] if operator["operatorName"] == OPERATOR_NAME
    ]
    for name, seen in (progress.get("observedMetrics") or {}).items():
        if not name.startswith(f"{OBSERVED} "):
            continue
        if "schema" in seen:  # the form that Connect's client returns
            seen = dict(zip((field["name"] for field in seen["schema"]["fields"]), seen["values"], strict=True))
        seen = seen.asDict() if hasattr(seen, "asDict") else seen
        found.append({name: count or 0 for name, count in seen.items()})
    return found


def last_completed(execution: Any) -> tuple[int, int] | None:
    """Returns the number of a query's last completed micro-batch, and its watermark in milliseconds.

    Returns None if the query has not begun a micro-batch since it started, or has not completed one yet. ``execution``: Spark's own
    object of the query. The logs in the checkpoint are read, because Spark forgets the progress of micro-batches while a query is
    idle.
    """
    committed = execution.commitLog().getLatestBatchId()
    if execution.lastExecution() is None or committed.isEmpty():
        return None
    batch = committed.get()
    return batch, execution.offsetLog().offsetSeqMetadataForBatchId(batch).get().batchWatermarkMs()
