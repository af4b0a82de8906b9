"""BUDGET INTERVAL by a clock that counts, in plain Python: how many candidates each matching row may try."""

from __future__ import annotations

BLOCK = 64


class Pace:
    """The control of the rows of a partition, or of a micro-batch.

    Without ``rows`` the interval is for a row. With ``rows`` it is for that many matching rows together. ``row`` and ``check`` are
    what the clock counts. All times are in nanoseconds.
    """

    def __init__(self, interval: int, row: int, check: int, rows: int | None = None) -> None:
        self.interval, self.row, self.check, self.rows = interval, row, check, rows
        self.blocks: list[tuple[int, int, int, int]] = []  # checks that it could use, that it used, time, allowance of a row
        self.mine: list[int] = []  # the checks of each row of the present block
        self.checks = BLOCK * 8 if self.allowance() else BLOCK

    def allowance(self) -> int:
        if self.rows is None:
            return self.interval
        spent = sum(time for _, _, time, _ in self.blocks)
        return max(self.interval - spent, 0) // max(self.rows - BLOCK * len(self.blocks), 1)

    def time(self, rows: int) -> int:
        return sum(self.row + self.check * made for made in self.mine[:rows])

    def allowed(self) -> int:
        at = len(self.mine)
        # the clock is read before rows 8, 16, ..., 56
        if any(self.time(read) >= BLOCK * self.allowance() for read in range(8, at + 1, 8)):
            return 1
        return (at + 1) * self.checks // BLOCK - at * self.checks // BLOCK

    def made(self, checks: int) -> None:
        self.mine.append(checks)
        if len(self.mine) < BLOCK:
            return
        self.blocks.append((self.checks, sum(self.mine), self.time(BLOCK), self.allowance()))
        self.mine = []
        elapsed = made = 0
        for _, own, time, _ in self.blocks:
            elapsed, made = elapsed // 2 + time, made // 2 + own
        allowance = self.allowance()
        if made:
            self.checks = max(BLOCK, min(BLOCK * allowance * made // max(elapsed, 1), 4 * self.checks, BLOCK << 20))
        if not allowance:
            self.checks = BLOCK

    def totals(self) -> list[int]:
        """Blocks, late blocks, and the least and greatest checks of a block that has a row."""
        begun = [checks for checks, *_ in self.blocks] + [self.checks] * bool(self.mine)
        late = sum(checks == BLOCK and time > BLOCK * allowance for checks, _, time, allowance in self.blocks)
        return [len(self.blocks), late, min(begun, default=0), max(begun, default=0)]
