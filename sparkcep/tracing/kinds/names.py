"""Writes the matches and scores that the engine lists."""

from __future__ import annotations

from typing import Any

from sparkcep.tracing.answers.values import Names, row_spans
from sparkcep.tracing.kinds.listing import Listed


class ListedNames(Names):
    """Also writes matches by their rows and variables, and scores."""

    def match(self, match: Listed) -> str:
        """A match: its rows, and their variables in parentheses."""
        if not match.rows:
            return "an empty match"
        return f"{row_spans(match.rows)} ({self.labels(match.variables)})"

    def value(self, value: Any) -> str:
        """A score, or another value."""
        return self.values.text(value)
