"""The machine-readable grammar and the project's parser describe one language."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sparkcep.errors import ClauseError
from sparkcep.pattern.nodes import Within, walk
from sparkcep.sql.clause import MatchClause, to_sql
from sparkcep.sql.expression import Expr
from sparkcep.sql.parser import parse_clause
from tests.grammar.generate import Generator, Mutator, Piece, accepts, plain

ROOT = Path(__file__).resolve().parents[2]

VALID = 2000
BROKEN = 4000
SKELETONS = 2000
BATCHES = 8  # so that a failure names a part that runs quickly


def seeds(total: int) -> list[int]:
    return list(range(0, total, total // BATCHES))


# -- the texts of the project ---------------------------------------------------------------------------------

_SKIPPED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|(?P<clause>\bmatch_recognize\s*\()|(?P<paren>[()])""",
    re.I | re.S,
)


def clauses_of(sql: str) -> Iterator[str]:
    """The text between the parentheses of each MATCH_RECOGNIZE of a statement."""
    for found in _SKIPPED.finditer(sql):
        if not found["clause"]:
            continue
        depth = 1
        for paren in _SKIPPED.finditer(sql, found.end()):
            if paren["paren"] or paren["clause"]:
                depth += -1 if paren["paren"] == ")" else 1
                if depth == 0:
                    yield sql[found.end() : paren.start()]
                    break


def project_clauses(folder: str, pattern: str) -> list[tuple[str, str]]:
    return [
        (path.name, clause)
        for path in sorted((ROOT / folder).rglob(pattern))
        for clause in clauses_of(path.read_text(encoding="utf-8"))
        # the table function of the same name takes the clause as a string
        if not clause.lstrip().upper().startswith("TABLE")
    ]


def test_examples_are_in_the_grammar():
    clauses = project_clauses("sql_examples", "*.sql")
    assert clauses
    for name, clause in clauses:
        assert parse(clause), (name, clause)
        assert accepts(clause), (name, clause)


def test_cases_that_the_parser_reads_are_in_the_grammar():
    clauses = project_clauses("tests/cases", "*.sql")
    assert clauses
    for name, clause in clauses:
        assert accepts(clause) or not parse(clause), (name, clause)


# -- the parser and its side conditions -----------------------------------------------------------------------


def parse(text: str) -> MatchClause | None:
    """The clause, or None where the parser gives its error; the error's place must lie in the text."""
    try:
        return parse_clause(text)
    except ClauseError as error:
        assert_place(error, text)
        return None


def assert_place(error: ClauseError, text: str) -> None:
    lines = text.split("\n")
    assert 1 <= error.line <= len(lines), (error, text)
    line = lines[error.line - 1]
    assert 1 <= error.column <= len(line) + 1, (error, text)
    fragment = error.fragment.removesuffix("...")
    assert line[error.column - 1 :].startswith(fragment), (error, text)
    assert re.fullmatch(r"SPARKCEP\.[A-Z_]+", error.error_class) and re.fullmatch(r"[0-9A-Z]{5}", error.sqlstate)
    assert error.message and str(error).startswith(f"[{error.error_class}] ")


def in_the_language(clause: MatchClause) -> bool:
    """What the parser leaves to the plan but the grammar says: sizes and counts are numbers or intervals."""
    numbers: list[Expr] = []
    extents: list[tuple[Expr, bool]] = []
    if clause.approx:
        numbers += [clause.approx.k, *(w for _, w in clause.approx.weights)]
    if clause.window:
        extents.append((clause.window.size, clause.window.rows))
        if clause.window.slide is not None:
            extents.append((clause.window.slide, clause.window.slide_rows))
    groups = [node.size for node in walk(clause.pattern) if isinstance(node, Within)]
    return (
        all(map(is_number, numbers))
        and all(is_number(e) or (e.op == "interval" and not rows) for e, rows in extents)
        and all(e.op == "interval" for e in groups)
        and (clause.top is None or (is_number(clause.top.k) and clause.top.k.value.isdigit()))
    )


def is_number(e: Expr) -> bool:
    return e.op == "lit" and bool(re.match(r"\.?\d", str(e.value)))


# -- generated texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(VALID))
def test_generated_clauses_parse_and_print(seed):
    generator = Generator(Random(seed))
    for number in range(VALID // BATCHES):
        text = generator.text("match_clause")
        clause = parse_clause(text)
        printed = to_sql(clause)
        assert parse_clause(printed) == clause, (text, printed)
        if number % 5 == 0:
            assert accepts(text) and accepts(printed), (text, printed)


@pytest.mark.parametrize("seed", seeds(BROKEN))
def test_broken_clauses_give_an_error_with_its_place(seed):
    generator = Generator(Random(seed + 1))
    mutator = Mutator(generator)
    refused = 0
    for _ in range(BROKEN // BATCHES):
        refused += parse(mutator.text(generator.pieces("match_clause"))) is None
    assert refused > BROKEN // BATCHES // 2  # the mutator does break them


@pytest.mark.parametrize("seed", seeds(SKELETONS))
def test_parser_and_grammar_refuse_the_same_skeletons(seed):
    """Edits of the words, names and row patterns around the expressions; expressions stay short and whole."""
    generator = Generator(Random(seed + 2), max_nesting=1)
    mutator = Mutator(generator)
    read = 0
    for _ in range(SKELETONS // BATCHES):
        pieces = generator.pieces("match_clause")
        places = [i for i, piece in enumerate(pieces) if not piece.in_expression]
        text = plain(mutator.tokens(pieces, places))
        clause = parse(text)
        by_parser = clause is not None and in_the_language(clause)
        by_grammar = accepts(text) and not side_condition_broken(text)
        assert by_parser == by_grammar, (by_parser, text)
        read += by_parser
    assert 0 < read < SKELETONS // BATCHES
