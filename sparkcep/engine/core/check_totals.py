"""What the checks of a budget came to, over all rows that an engine searched."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

MILLIONTHS = 1_000_000


@dataclass
class Totals:
    """``checks``: candidates that were tried; ``left_out``: those that were not; ``short``: rows at which some were not;
    ``matches`` that were told, and how many of them are ``complete``; ``lost``: what is missing of the coverage of those rows, in
    millionths of a row, where the clause asks for COVERAGE()."""

    checks: int = 0
    left_out: int = 0
    short: int = 0
    matches: int = 0
    complete: int = 0
    lost: int = 0

    @staticmethod
    def names() -> list[str]:
        """The numbers' names in their order."""
        return [number.name for number in fields(Totals)]

    def values(self) -> list[int]:
        """All numbers in their order."""
        return list(astuple(self))

    def since(self, before: list[int]) -> list[int]:
        """By how much each number is larger than ``before``."""
        return [now - old for now, old in zip(self.values(), before, strict=True)]
