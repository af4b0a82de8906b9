"""Test cases for a statement: rows of letters and the expected matches.

``sparkcep test`` uses it. A case file has one case per line, ``rows -> matches``, with comments after ``#``. Matches are separated
by commas. A match is a list of its rows: ``1-3``, ``1 2 3`` or, with variables, ``1:STRT 2:DOWN 3:UP``. ``none`` means no match.

    STRT DOWN UP       -> 1-3
    . DOWN UP DOWN UP  -> 1-3, 3:STRT 4:DOWN 5:UP     # with AFTER MATCH SKIP TO LAST UP
    DOWN DOWN          -> none
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sparkcep.cli.trial import Preview, PreviewMatch, preview
from sparkcep.errors import ToolError

_ITEM = re.compile(r"(?P<first>\d{1,9})(-(?P<last>\d{1,9})|:(?P<variable>\S+))?")
Item = tuple[range, str | None]


class CaseError(ToolError):
    """A line of a case file cannot be read. The message says what to write."""


@dataclass(frozen=True)
class Case:
    """A case: its line, its rows, and for each match its items (rows, variable or None)."""

    line: int
    rows: str
    matches: tuple[tuple[Item, ...], ...]

    def holds(self, found: Preview) -> bool:
        """Whether these matches were found, in this order."""
        return len(found.matches) == len(self.matches) and all(map(_agrees, self.matches, found.matches))


def cases(text: str) -> Iterator[Case]:
    """Yields the cases of a file. Raises CaseError."""
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole.partition("#")[0].strip()
        if not line:
            continue
        rows, arrow, matches = line.partition("->")
        if not arrow or not rows.strip() or not matches.strip():
            raise CaseError(f"line {number}: write ROWS -> MATCHES, as in A B . -> 1-2, or ROWS -> none")
        expected = [] if matches.strip() == "none" else [tuple(_items(match, number)) for match in matches.split(",")]
        yield Case(number, rows.strip(), tuple(expected))


def _items(text: str, line: int) -> Iterator[Item]:
    for part in text.split():
        found = _ITEM.fullmatch(part)
        if found is None:
            raise CaseError(f"line {line}: {part!r} is not a row of a match; write 3, 1-3 or 3:UP")
        rows = range(int(found["first"]), int(found["last"] or found["first"]) + 1)
        if not rows:
            raise CaseError(f"line {line}: {part!r} ends before it begins; write {found['last']}-{found['first']}")
        yield rows, found["variable"]


def _agrees(expected: tuple[Item, ...], found: PreviewMatch) -> bool:
    if sum(len(rows) for rows, _ in expected) != len(found.taken):  # a range may be far longer than the match
        return False
    each = ((row, variable) for rows, variable in expected for row in rows)
    return all(row == r and (variable is None or variable.upper() == v.upper()) for (row, variable), (r, v) in zip(each, found.taken))


def _written(rows: range, variable: str | None) -> str:
    return f"{rows[0]}:{variable}" if variable else str(rows[0]) if len(rows) == 1 else f"{rows[0]}-{rows[-1]}"


def failures(statement: str, text: str) -> tuple[int, list[str]]:
    """Returns the number of cases, and for each failed case a text with the expected and actual matches.

    Raises CaseError and ClauseError.
    """
    failed, count = [], 0
    for case in cases(text):
        count += 1
        found = preview(statement, case.rows)
        if not case.holds(found):
            expected = ", ".join(" ".join(_written(*item) for item in match) for match in case.matches) or "none"
            came = ", ".join(" ".join(f"{row}:{v}" for row, v in match.taken) or "(empty)" for match in found.matches) or "none"
            failed.append(f"line {case.line}: {case.rows}\n  expected  {expected}\n  came      {came}\n\n" + "\n".join(f"    {line}" for line in str(found).splitlines()))
    return count, failed
