"""EXPLAIN AUTOMATON: converts a PATTERN to an equivalent AUTOMATON that returns the same matches.

The rewriter uses it. The automaton is the one that the engine builds for a PATTERN with CHANGES IN
(:mod:`sparkcep.compiler.registers.pattern_automaton`). It is printed in the clause's syntax as AUTOMATON BY ROWS. Each arc has the
name of the variable whose rows it takes, so MEASURES and SUBSET need no change.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sparkcep.clause.opaque_text import stretches
from sparkcep.clause.printer import to_sql, variable_text
from sparkcep.clause.tokens import quote, tokenize
from sparkcep.clause.tree import OMIT_EMPTY, SHOW_EMPTY, MatchClause
from sparkcep.compiler.net.gap_net import selection_automaton
from sparkcep.compiler.registers.pattern_automaton import translated
from sparkcep.errors import UNSUPPORTED, error_at
from sparkcep.plan.build import make_plan
from sparkcep.plan.extend.changes import check_computations
from sparkcep.plan.plan import Plan
from sparkcep.plan.records import MEAN, OF_COLUMN, SUM, Arc, Automaton, Register, letter_column, register_column
from sparkcep.plan.split.fallible import spoken, unshielded
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewritten import Rewritten
from sparkcep.sql.trees import call_text, literal_text

_WIDTH = 160
_EXPLAINED = re.compile(r"\s*EXPLAIN\s+AUTOMATON\b", re.I)
_FROM_ARC = frozenset(["FROM"])  # an arc needs backticks to have this name


def asked(sql: str) -> str | None:
    """Returns the statement after EXPLAIN AUTOMATON, at its original offset. Returns None for any other statement."""
    head = next((text for _, text in stretches(sql) if text.strip()), "")  # its comments are blank
    if not _EXPLAINED.match(head):
        return None
    tokens = tokenize(sql)
    if [token.upper for token in tokens[:2]] != ["EXPLAIN", "AUTOMATON"] or len(tokens) < 4 or tokens[2].text == "(":
        return None
    end = tokens[1].end
    return re.sub(r"\S", " ", sql[:end]) + sql[end:]


def answer(sql: str, found: Sequence[Rewritten], settings: Settings) -> str:
    """Returns a statement whose one row is the text of ``sql`` with automata."""
    encoded = b64encode(restated(sql, found, settings).encode()).decode()
    return f"SELECT decode(unbase64('{encoded}'), 'UTF-8') AS plan"


def restated(sql: str, found: Sequence[Rewritten], settings: Settings) -> str:
    """Returns the statement with an AUTOMATON instead of each PATTERN.

    Raises ClauseError for a PATTERN that cannot be an automaton, at the part that prevents it.
    """
    text = sql
    for item in sorted(found, key=lambda item: item.clause.span.start, reverse=True):
        clause = item.clause
        if clause.automaton is not None:
            continue
        if item.origin.literal is not None:
            message = "EXPLAIN AUTOMATON shows a clause, not the function. Write MATCH_RECOGNIZE (...) after the table instead of the function"
            raise error_at(sql, item.origin.literal.start, item.origin.literal.end, "AUTOMATON", message, UNSUPPORTED)
        indent = " " * (len(text[: clause.span.start].rsplit("\n", 1)[-1]) - len(text[: clause.span.start].rsplit("\n", 1)[-1].lstrip()))
        lines = "".join(f"\n{indent}  {line}" for line in as_automaton(clause, settings).split("\n"))
        text = text[: clause.span.start] + lines + f"\n{indent}" + text[clause.span.end :].lstrip()
    return text.strip()


def as_automaton(clause: MatchClause, settings: Settings) -> str:
    """Returns the text of a clause with an AUTOMATON instead of its PATTERN. Raises ClauseError if that is impossible."""
    check_computations(clause, "as an AUTOMATON")
    plan = make_plan(clause, settings=replace(settings, prefilter=False))
    net = selection_automaton(plan)[1]
    plan = translated(plan, net)
    assert plan.automaton is not None
    if not plan.automaton.arcs:
        raise clause.error(clause.pattern.span, "AUTOMATON", "the pattern matches only the empty sequence, and an AUTOMATON does not have empty matches", UNSUPPORTED)
    rows = clause.rows if clause.rows not in (SHOW_EMPTY, OMIT_EMPTY) else SHOW_EMPTY
    rest = replace(clause, selection=None, skip=None, defines=(), rows=rows)
    named = partial(variable_text, quoted=_name)
    lines = to_sql(rest, named=named, column=named).replace(" SHOW EMPTY MATCHES", "").split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith("PATTERN ("))
    return "\n".join([*lines[:at], *_Printed(plan, plan.automaton).lines(), *lines[at + 1 :]])


def _name(name: str) -> str:
    plain = name.isascii() and name.isidentifier() and name.upper() not in _FROM_ARC
    return name if plain else quote(name)


class _Printed:
    """Prints an automaton that was built from a PATTERN."""

    def __init__(self, plan: Plan, automaton: Automaton) -> None:
        self.plan, self.automaton = plan, automaton
        self.letters = {letter.bit: unshielded(letter.text) for letter in plan.letters}
        self.names = _names(automaton.declared)
        self.columns = {register_column(i): name for i, name in enumerate(self.names)}
        self.columns |= {letter_column(bit): f"coalesce(({text}), FALSE)" for bit, text in self.letters.items()}
        self.columns |= {name: f"({text})" if not re.fullmatch(r"\w+(\.\w+)*", text) else text for name, text in plan.inputs}

    def lines(self) -> list[str]:
        automaton = self.automaton
        out = ["AUTOMATON BY ROWS ("]
        if automaton.declared:
            out.append("  REGISTER " + ",\n    ".join(map(self._register, automaton.declared, self.names)))
        passing = {arc.source: arc for arc in automaton.arcs if not arc.label}
        states = [f"{automaton.states[automaton.start]} START", *(f"{automaton.states[state]} FINAL" for state in automaton.final)]
        states += [f"{automaton.states[state]} IGNORE WHEN {self._when(arc)}" for state, arc in passing.items()]
        out.append("  STATE " + ",\n    ".join(states))
        out += ["  " + self._arc(arc) for arc in automaton.arcs if arc.label]
        return [line for item in [*out, ")"] for line in item.split("\n")]

    def _register(self, register: Register, name: str) -> str:
        if register.type not in OF_COLUMN:
            kind = register.type.upper()
        else:
            of = self.columns[register.like]
            kind = f"LIKE ({ {SUM: f'sum({of})', MEAN: f'avg({of})'}.get(register.type, of) })"
        first = self._text(register.initial)
        return f"{name} {kind}" + (f" = {first}" if first != "NULL" else "")

    def _arc(self, arc: Arc) -> str:
        states = self.automaton.states
        text = f"ARC {_name(self.plan.variables[arc.label - 1])} FROM {states[arc.source]} TO {states[arc.target]}"
        when = self._when(arc)
        parts = [f"WHEN {when}"] if when != "TRUE" else []
        sets = [f"{self.names[item.register]} = {self._text(item.tree)}" for item in arc.sets]
        parts += ["SET " + ", ".join(sets)] if sets else []
        whole = " ".join([text, *parts])
        return whole if len(whole) <= _WIDTH else "\n    ".join([text, *parts])

    def _when(self, arc: Arc) -> str:
        conjuncts = [self.letters[arc.letter]] if arc.letter >= 0 else []
        return " AND ".join([*conjuncts, *map(self._text, arc.fence)]) or "TRUE"

    def _text(self, tree: tuple) -> str:
        """Returns the SQL text of a tree over registers and columns of the row."""
        if tree[0] == "checked":
            return self._text(tree.tree)
        if tree[0] == "col":
            return spoken(self.columns[tree.column])
        if tree[0] == "lit":
            return literal_text(tree.type, tree.text)
        name, args = tree[1], tree[2:]
        if name in ("cast", "try_cast"):
            of_sum = args[1].text.split(" ")[0] in OF_COLUMN  # the register it is assigned to has that type
            return self._text(args[0]) if of_sum else f"{name}({self._text(args[0])} AS {args[1].text})"
        return call_text(name, [self._text(arg) for arg in args])


def _names(registers: Sequence[Register]) -> list[str]:
    """Returns unique names for registers that are words."""
    found: list[str] = []
    for register in registers:
        word = re.sub(r"\W+", "_", register.name).strip("_")[:40]
        number = 2
        name = word
        while name.lower() in {other.lower() for other in found}:
            name, number = f"{word}_{number}", number + 1
        found.append(name)
    return found
