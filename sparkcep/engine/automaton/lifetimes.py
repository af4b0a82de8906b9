"""Lifetimes of rows and matches, as int64 numbers in time order.

The automaton search (:mod:`sparkcep.engine.automaton.register_runs`) and the rows of ARCS FROM use them. Integral times are their
own numbers. Floating-point times are their bits, in the order of their values. The next number is the next time, so [t, t + size)
ends before the first time outside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkcep.columns.arrays import null_marks, ordered_bits, ordered_words, words
from sparkcep.columns.types import type_of
from sparkcep.engine.core.chunk import Chunk
from sparkcep.engine.core.errors import Failures, said
from sparkcep.engine.core.windows import check_window, measured
from sparkcep.errors import SEMANTIC, ClauseError, MatchRuntimeError
from sparkcep.kernels.automaton.register_runs import ENDLESS
from sparkcep.plan.options import NO_WINDOW
from sparkcep.plan.plan import Plan


@dataclass(frozen=True)
class Lifetimes:
    """The lifetimes of rows, from ``when`` to before ``ends``. All arrays are by rows.

    Attributes:
        when: int64, the times of the rows; 0 if no lifetime ends.
        ends: int64, ENDLESS if the lifetime does not end.
        absent: uint8, whether the row does not have a time.
    """

    when: np.ndarray
    ends: np.ndarray
    absent: np.ndarray


def check_lifetimes(plan: Plan, schema: pa.Schema) -> None:
    """Raises ClauseError if WINDOW or LIFETIME TO does not fit the type of the rows' times."""
    automaton = plan.automaton
    check_window(plan.windows[0], schema)
    if automaton.lifetime:
        time, end = (type_of(schema.field(name).type) for name in (automaton.time, automaton.lifetime))
        if time != end or not (time.is_number or time.kind in ("date", "timestamp", "timestamp_ntz")):
            line, column, text = plan.place
            message = f"LIFETIME TO is of type {end}, and the first ORDER BY expression is of type {time}. Both must be of one type, a number, a date or a timestamp"
            raise ClauseError("DATATYPE_MISMATCH", message, sqlstate=SEMANTIC, line=line, column=column, fragment=text)


def lifetimes(plan: Plan, chunk: Chunk, failures: Failures) -> Lifetimes:
    """The lifetimes of a chunk's rows. Raises MatchRuntimeError if one ends before it begins."""
    automaton, window = plan.automaton, plan.windows[0]
    column = chunk.columns[automaton.time]
    absent = null_marks(column)
    endless = np.full(chunk.rows, ENDLESS)
    if automaton.lifetime:
        values, until = words(column), chunk.columns[automaton.lifetime]
        when, ends = ordered_words(values), ordered_words(words(until))
        if values.dtype.kind == "f":
            absent |= ~np.isfinite(values)
            ends = np.where(np.isfinite(words(until)) | (words(until) < 0), ends, endless)
        ends = np.where(null_marks(until) == 1, endless, ends)
        wrong = np.flatnonzero((ends <= when) & (absent == 0))
        if len(wrong):
            raise MatchRuntimeError(
                "LIFETIME",
                f"LIFETIME TO gives {said(until[wrong[0]])} for a row of {said(column[wrong[0]])}{failures.where(wrong[0], chunk.columns)}: a row's "
                "lifetime must end after its time. Use another expression, or filter out such rows by WHERE below the clause",
                sqlstate="22000",
            )
        return Lifetimes(when, ends, absent.astype(np.uint8))
    if window.kind == NO_WINDOW:
        return Lifetimes(np.zeros(chunk.rows, dtype=np.int64), endless, absent)
    rows = measured(window, column, np.zeros(chunk.rows, dtype=np.int64), False)
    last = ordered_words(rows.until)
    return Lifetimes(ordered_words(rows.when), np.where(last == ENDLESS, ENDLESS, last + (last < ENDLESS)), (absent | rows.null).astype(np.uint8))


def expired(ends: np.ndarray, first: np.ndarray, arrow: pa.DataType) -> np.ndarray:
    """The ends of matches that begin when the lifetime of their rows ends. They last as long as the lifetime did, from the first
    row's time to ``ends``."""
    if type_of(arrow).is_float:
        return ordered_words(2 * ordered_bits(ends).view(np.float64) - ordered_bits(first).view(np.float64))
    far = ends + (ends - first)
    return np.where((far < ends) & (ends > first), ENDLESS, far)  # ENDLESS if the end is beyond 64 bits
