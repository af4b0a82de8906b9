"""Reads the figures of clauses over streams in a query's progress.

The command ``run``, reports and the checks of checkpoints use it.
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
