"""The effort of an engine: its limits, and the counts of the candidates that a BUDGET let it check."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

MILLIONTHS = 1_000_000
SUMS = 9  # how many of the totals are sums, the first ones


@dataclass(frozen=True)
class Limits:
    """Limits on the effort of one engine.

    Attributes:
        max_state_bytes: bytes of a search's tables.
        max_steps: steps of a kernel.
        max_matches: matches of a partition.
        patience: how many steps beyond four a row a search takes before it remembers failed states. This concerns conditions that
            look at the match.
        merging: whether event selection prunes by completion ends and remembers failures, and runs side by side are merged. It is
            switched off to measure the gain.
    """

    max_state_bytes: int = 1 << 30
    max_steps: int = 2_000_000_000
    max_matches: int = 1_000_000_000
    patience: int = 256
    merging: bool = True


@dataclass
class Totals:
    """Counts of the checks under a BUDGET, over all rows that an engine searched.

    Attributes:
        checks: candidates that were tried.
        left_out: candidates that were not tried.
        short: rows where some candidate was not tried.
        matches: emitted matches.
        complete: emitted matches that are complete.
        lost: missing coverage of the rows, in millionths of a row, if the clause asks for COVERAGE().
        blocks: finished blocks of rows whose checks an interval set.
        late_blocks: blocks that took longer than the interval allows with one check a row.
        refills: how often a history was replaced by what a partition had recorded.
        least, greatest: the least and the greatest number of checks that a block could use, 0 without a block.
    """

    checks: int = 0
    left_out: int = 0
    short: int = 0
    matches: int = 0
    complete: int = 0
    lost: int = 0
    blocks: int = 0
    late_blocks: int = 0
    refills: int = 0
    least: int = 0
    greatest: int = 0

    def count_blocks(self, blocks: int, late: int, least: int, greatest: int) -> None:
        """Adds the blocks of a search."""
        self.blocks += blocks
        self.late_blocks += late
        self.least = min(least, self.least) if least and self.least else least or self.least
        self.greatest = max(greatest, self.greatest)

    @staticmethod
    def names() -> list[str]:
        """Returns the names of the numbers in their order."""
        return [number.name for number in fields(Totals)]

    def values(self) -> list[int]:
        """Returns all numbers in their order."""
        return list(astuple(self))

    def since(self, before: list[int]) -> list[int]:
        """Returns by how much each sum is larger than in ``before``. The last two numbers are not sums."""
        return [now - old for now, old in zip(self.values(), before, strict=True)][:SUMS]
