"""The reasons why a row is not taken: a closed list, which the JSON form of an answer uses."""

from __future__ import annotations

from dataclasses import dataclass

REASONS = (
    "CONDITION_FALSE", "CONDITION_NULL", "PARTITION_END", "WINDOW", "GROUP_WINDOW", "NULL_TIME", "ANCHOR", "NEGATION", "AFTER_MATCH", "PREFERRED", "RELUCTANT",
    "LOST", "EMPTY_MATCH", "FILTERED", "NO_SUCH_ROW", "RANK", "BUDGET", "EFFORT", "WATERMARK", "OPEN", "LATE", "NO_STATE",
)  # fmt: skip


@dataclass(frozen=True)
class Reason:
    """Why something did not happen.

    Attributes:
        reason: a member of :data:`REASONS`.
        row: the number of the row, 0 at the partition's end.
        start_row: the number of the start row of the run.
        variable: the variable that could have come, "" for others.
    """

    reason: str
    row: int = 0
    start_row: int = 0
    variable: str = ""

    def __post_init__(self) -> None:
        assert self.reason in REASONS


def unplaced(reason: str, row: int) -> str:
    """Why a window does not have a row. ``row``: the number of the row."""
    if reason == "NULL_TIME":
        return f"a time is NULL, so its window cannot place row {row}"
    return f"row {row} is outside of {'WITHIN' if reason == 'GROUP_WINDOW' else 'WINDOW'}"
