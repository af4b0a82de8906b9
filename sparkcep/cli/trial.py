"""Tries a pattern over rows of letters: finds the matching rows in milliseconds, without Spark.

``sparkcep.preview``, ``sparkcep preview`` and ``sparkcep test`` use it. A row is written as the variables whose conditions it
satisfies: ``A A B . AB`` has five rows; the fourth satisfies none, the last one two. The engine is the one that runs on Spark. The
letters replace the conditions that Spark computes for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sparkcep.clause.parser import parse_clause
from sparkcep.clause.printer import variable_text
from sparkcep.clause.tokens import WORD, tokenize
from sparkcep.clause.tree import SHOW_EMPTY, MatchClause
from sparkcep.errors import SEMANTIC, ClauseError, nearest
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.sequences import without_sequences
from sparkcep.plan.facts import tree_of
from sparkcep.plan.plan import LETTERS, Plan

_ROW = re.compile(r"(?P<letters>[^@\s]+)(@(?P<time>-?\d{1,18}))?")
_NONE = "."
_BEFORE = "PATTERN ("


@dataclass(frozen=True)
class PreviewMatch:
    """A match.

    Attributes:
        number: its number.
        taken: (row, variable) for each row taken, rows counted from 1. A row on both sides of ``&`` occurs twice.
    """

    number: int
    taken: tuple[tuple[int, str], ...]

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(row for row, _ in self.taken)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(variable for _, variable in self.taken)


@dataclass(frozen=True)
class Preview:
    """The result of :func:`preview`: the ``rows`` as written, and the ``matches``. As text, it shows them below each other."""

    rows: tuple[str, ...]
    matches: tuple[PreviewMatch, ...]

    def __str__(self) -> str:
        lines = [("row", [str(i) for i in range(1, len(self.rows) + 1)]), ("", list(self.rows))]
        for match in self.matches:
            cells = [""] * len(self.rows)
            for row, variable in match.taken:
                cells[row - 1] = f"{cells[row - 1]}&{variable}" if cells[row - 1] else variable
            lines.append((f"match {match.number}", cells))
        widths = [max(len(cells[i]) for _, cells in lines) for i in range(len(self.rows))]
        head = max(len(name) for name, _ in lines)
        text = [f"{name:<{head}}  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths)) for name, cells in lines]
        return "\n".join(line.rstrip() for line in [*text, *([] if self.matches else ["no match"])])


def preview(text: str, rows: str | Iterable[str]) -> Preview:
    """Finds the matches of a pattern over rows of letters, in milliseconds and without Spark.

    Args:
        text: a statement with one clause, the text between a clause's parentheses, or a row pattern alone (``A B+ C?``). PARTITION
            BY, ORDER BY, MEASURES, SHOW UNFINISHED MATCHES and conditions are ignored. Windows, AFTER MATCH SKIP, event selection,
            negation and APPROX apply. If there is a DEFINE, a variable without a condition matches every row, as in the statement.
        rows: a text of rows separated by blanks, or a sequence of rows. A row is a ``.`` or the variables whose conditions it
            satisfies, with ``|`` between variables of more than one letter. The row ``A@7`` has the time 7 for windows, which
            means seconds if they are intervals. A row without a time has the time of the row before plus one.

    Returns:
        A :class:`Preview` with ``rows`` and ``matches``; printed, it shows which rows match.

    Raises:
        ClauseError: the pattern is wrong, or the rows cannot be read.

    Example:
        >>> print(sparkcep.preview("FAIL{3,} OK", "FAIL FAIL FAIL OK FAIL"))
        row      1     2     3     4   5
                 FAIL  FAIL  FAIL  OK  FAIL
        match 1  FAIL  FAIL  FAIL  OK
    """
    words = {token.upper for token in tokenize(text) if token.kind == WORD}
    if not words & {"MATCH_RECOGNIZE", "PATTERN", "AUTOMATON"}:
        try:
            return _tried(parse_clause(f"{_BEFORE}{text})"), rows)
        except ClauseError as error:
            if not error.line:
                raise
            # its position counts in the pattern alone
            raise error.moved(error.line, error.column - len(_BEFORE) if error.line == 1 else error.column) from None
    if "MATCH_RECOGNIZE" not in words:
        return _tried(parse_clause(text), rows)
    from sparkcep.sql.rewrite.rewrite import rewrite_all

    clauses = [item.clause for item in rewrite_all(text)[1]]
    if len(clauses) != 1:
        raise ClauseError("PREVIEW", f"a preview takes one clause; the statement has {len(clauses)}")
    return _tried(clauses[0], rows)


def _tried(clause: MatchClause, rows: str | Iterable[str]) -> Preview:
    if _reads_values(clause):
        message = "a preview over letters supports row patterns only. Automata, preferences, bundles, histories, changes and sliding windows read values"
        raise ClauseError("PREVIEW", f"{message}: run the statement over a few rows instead")
    clause = without_sequences(clause)
    variables = tree_of(clause.pattern)[0]
    letters = list(rows.split() if isinstance(rows, str) else rows)
    read = [_row(row, variables) for row in letters]
    defined = {define.variable.lower() for define in clause.defines}
    plan = make_plan(_over_letters(clause, [v for v in variables if not defined or v.lower() in defined]))
    found: dict[int, list[tuple[int, str]]] = {}
    for number, row, variable in _found(plan, read):
        taken = found.setdefault(number, [])
        if variable is not None:
            taken.append((row, variable))
    return Preview(tuple(letters), tuple(PreviewMatch(number, tuple(taken)) for number, taken in found.items()))


def _reads_values(clause: MatchClause) -> bool:
    """Whether an option of the clause reads values of its rows."""
    approx = clause.approx
    if approx is not None and (approx.report in ("BUNDLES", "HISTORY") or (approx.budget is not None and approx.budget.history is not None)):
        return True
    slides = clause.top is not None and clause.window is not None and clause.window.slide is not None
    slides = slides or any(sequence.step is not None for sequence in clause.sequences)
    return slides or bool(clause.preferences()) or any(option is not None for option in (clause.automaton, clause.changes, clause.lifetime))


def _row(text: str, variables: Sequence[str]) -> tuple[set[str], int | None]:
    """Returns the variables that a row satisfies, and its time if it has one."""
    found = _ROW.fullmatch(text)
    if found is None:
        raise ClauseError("PREVIEW", f"the row {text!r} cannot be read; write {_NONE}, variables such as A or A|B, and @ with a whole number for its time")
    written = found["letters"]
    names = {v.upper(): v for v in variables}
    if written == _NONE:
        parts = []
    elif "|" in written or written.upper() in names:
        parts = written.split("|")
    else:
        parts = list(written)
    for part in parts:
        if part.upper() not in names:
            close = nearest(part, variables)
            raise ClauseError(
                "PREVIEW", f"the row {text!r} has {part}, which is not a variable of the pattern; the variables are {', '.join(variables)}" + (f"; did you mean {close}?" if close else ""),
                sqlstate=SEMANTIC,
            )  # fmt: skip
    return {names[part.upper()] for part in parts}, int(found["time"]) if found["time"] else None


def _over_letters(clause: MatchClause, variables: list[str]) -> MatchClause:
    """Returns the clause with rows of letters as its input; the other parts keep their positions.

    The input has columns t and r, and for each variable a column that says whether the row satisfies it.
    """
    measures = "MATCH_NUMBER() AS __number, CLASSIFIER() AS __variable, LAST(r) AS __row"
    defines = ", ".join(f"{variable_text(v)} AS is_{i}" for i, v in enumerate(variables))
    parts = f"ORDER BY t MEASURES {measures} PATTERN ({' '.join(map(variable_text, variables)) or 'A'}){' DEFINE ' * bool(defines)}{defines}"
    other = parse_clause(" " * len(clause.text) + parts)  # the positions of these parts are after those of the clause
    return replace(clause, text=clause.text + parts, partition_by=(), order_by=other.order_by, measures=other.measures, rows=SHOW_EMPTY, unfinished=None, defines=other.defines)


def _found(plan: Plan, rows: list[tuple[set[str], int | None]]) -> Iterable[tuple[int, int, str | None]]:
    """Returns (match, row, variable) of each output row."""
    import pyarrow as pa

    from sparkcep.engine.factory import match_table

    times, last = [], 0
    for i, (_, time) in enumerate(rows):
        last = last + 1 if time is None else time
        if times and last < times[-1]:
            raise ClauseError("PREVIEW", f"row {i + 1} has the time {last}, and the row before has {times[-1]}. Write the rows in the order of their times")
        times.append(last)
    seconds = any(window.kind == "micros" for window in plan.windows)
    order = pa.array([time * 1_000_000 for time in times], pa.timestamp("us")) if seconds else pa.array(times, pa.int64())
    values = {"t": order, "r": pa.array(range(1, len(rows) + 1), pa.int64())}
    columns = {name: values[sql.strip("`").rpartition(".")[2]] for name, sql in plan.inputs}
    if plan.letters:
        bits = [sum(1 << bit for v, bit, _ in plan.letters if plan.variables[v] in fulfilled) for fulfilled, _ in rows]
        columns[LETTERS] = pa.array(bits, pa.int64())
    table = match_table(plan, pa.table(columns))
    columns = {computed.name: table.column(computed.text).to_pylist() for computed in plan.outputs if computed.name.startswith("__")}
    return list(zip(columns["__number"], columns["__row"], columns["__variable"]))
