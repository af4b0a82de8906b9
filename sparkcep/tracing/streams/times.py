"""Times of a stream's rows as text, in the session's time zone."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from sparkcep.tracing.answers.values import Values
from sparkcep.tracing.rows.local_times import local_time


class Times:
    """Writes times, without their date if all times of an answer are of one day."""

    def __init__(self, zone: str | None, values: Values, all_times: Iterable[int]) -> None:
        """
        Args:
            zone: the time zone; None for times without one (TIMESTAMP_NTZ).
            values: how values of rows are redacted.
            all_times: the times of the answer, in microseconds.
        """
        self._zone, self._values = zone, values
        self._short = len({self._at(micros).date() for micros in all_times}) == 1

    def __call__(self, micros: int) -> str:
        """A time in microseconds as text."""
        at = self._at(micros)
        whole, _, fraction = (at.time().isoformat() if self._short else at.isoformat(" ")).partition(".")
        return self._values.text(f"{whole}.{fraction.rstrip('0')}" if fraction else whole, quoted=False)

    def _at(self, micros: int) -> datetime.datetime:
        return local_time(micros, self._zone).replace(tzinfo=None)
