"""Prepares the feedback control of BUDGET INTERVAL for the best-effort search: the clock, the time and the rows left.

:mod:`sparkcep.kernels.budget.feedback` is the controller. The control starts over with each partition. Then a partition's matches
are a function of its rows and the clock alone. Only PER BATCH has one control for all partitions of a micro-batch.
"""

from __future__ import annotations

import numpy as np

from sparkcep.errors import UNSUPPORTED, ClauseError
from sparkcep.kernels.budget import feedback as controlling
from sparkcep.kernels.common.clock import KNOWN
from sparkcep.plan.records import Approx
from sparkcep.settings import COUNTED, THREAD, WALL

_CLOCKS = {THREAD: controlling.THREAD, WALL: controlling.WALL, COUNTED: controlling.COUNTED}
_SCOPES = {"ROW": controlling.PER_ROW, "PARTITION": controlling.PER_PARTITION, "BATCH": controlling.PER_BATCH}
NO_FEEDBACK = np.zeros((0, controlling.SAVED_FEEDBACK), dtype=np.int64)
UNLIMITED = controlling.Feedback(False, 0, 0, 0, 0, 0, np.zeros(0, dtype=np.int64), NO_FEEDBACK, NO_FEEDBACK, *(3 * [np.zeros(0, dtype=np.int64)]), np.zeros((0, controlling.RECORD_FIELDS), dtype=np.int64))


def check_clock(approx: Approx) -> None:
    """Raises ClauseError if the operating system does not have the clock."""
    budget = approx.budget
    if budget is not None and budget.pace is not None and budget.pace.clock != COUNTED and not KNOWN:
        message = f"this system does not have the {budget.pace.clock} clock that BUDGET INTERVAL needs. Write BUDGET n CHECKS, or set sparkcep.budget.clock to {COUNTED}:200,400"
        raise ClauseError("BUDGET", message, sqlstate=UNSUPPORTED, line=budget.line, column=budget.column, fragment=budget.text)


def feedback_of(approx: Approx, before: np.ndarray, matching: np.ndarray, begin: np.ndarray, until: np.ndarray, recorded: int) -> controlling.Feedback:
    """The controller of a search.

    Args:
        before: int64 (partitions, SAVED_FEEDBACK), the saved controls of partitions that still grow, 0 for a new one.
        matching: bool (rows), whether a variable of the pattern may take the row.
        begin, until: int64 (partitions), the rows to search.
        recorded: how many finished blocks are recorded.
    """
    pace = approx.budget.pace if approx.budget is not None else None
    if pace is None:
        return UNLIMITED
    sums = np.concatenate([[0], np.cumsum(matching)])
    rows = sums[until] - sums[begin] if pace.per != "ROW" else np.zeros(0, dtype=np.int64)
    return controlling.Feedback(
        True, _SCOPES[pace.per], pace.nanos, _CLOCKS[pace.clock], pace.row, pace.check, np.zeros(controlling.FEEDBACK_FIELDS, dtype=np.int64), before, np.zeros_like(before),
        rows.sum(keepdims=True) if pace.per == "BATCH" else rows, np.zeros(controlling.BLOCK_FIELDS, dtype=np.int64), np.zeros(2, dtype=np.int64), np.zeros((recorded, controlling.RECORD_FIELDS), dtype=np.int64),
    )  # fmt: skip
