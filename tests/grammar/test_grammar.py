"""The machine-readable grammar and the project's parser describe one language."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from lark import Tree

from sparkcep import rewrite
from sparkcep.clause.expressions import Expr
from sparkcep.clause.nodes import Within, walk
from sparkcep.clause.parser import parse_clause
from sparkcep.clause.printer import to_sql
from sparkcep.clause.tree import MatchClause
from sparkcep.errors import ClauseError
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.grammar.generate import Generator, Mutator, accepts, plain, tree, words_of
from tests.selection import first, one_in

ROOT = Path(__file__).resolve().parents[2]

VALID = 2000
BROKEN = 4000
SKELETONS = 2000
STATEMENTS = 800
BATCHES = 16  # so that a failure names a part that runs quickly


def seeds(total: int) -> list:
    return first(range(0, total, total // BATCHES), wider=2)


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


def strings_of(path: Path) -> Iterator[str]:
    """The texts of a file: those inside a JSON file, or the file itself."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        yield text
        return
    stack = [json.loads(text)]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def test_examples_are_in_the_grammar():
    found = 0
    for path in STATEMENT_FILES:
        for clause in clauses_of(path.read_text(encoding="utf-8")):
            if clause.lstrip().upper().startswith("TABLE"):  # the table function takes the clause as a string
                continue
            assert parse(clause), (path.name, clause)
            assert accepts(clause), (path.name, clause)
            found += 1
    assert found


# Spark expressions that the grammar's subset of them leaves out, and what the plan refuses behind the parser
BEYOND_THE_SUBSET = re.compile(r"LIKE ANY|trim\(|\(end\)|EXTRACT\(|WITHIN GROUP|COLLATE |\w:\w|(IGNORE|RESPECT) NULLS|\(\w+ ORDER BY|\(SELECT|MEASURES A\.\* AS|PARTITION BY \*|APPROX (-1|many)|SECOND CHECKS|TOP 1\.5|\(A -2\)|WINDOW (i|day)\b|[ (]:\w|[>=] \?|(INTERVAL|WINDOW|TOP) \?|WITHIN 1 \+ 1\)| \(\w+\.\w+(?: AS \w+)?, |\(\(\w+, |ARCS FROM \(|\"\.|\w\.(PREV|LAST)")


@pytest.mark.further
def test_what_the_parser_reads_of_cases_and_guides_is_in_the_grammar():
    paths = [p for p in sorted((ROOT / "tests" / "cases").rglob("*")) if p.suffix in (".sql", ".json", ".yaml", ".toml", ".txt", ".test")]
    paths += [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md")), *sorted((ROOT / "tests" / "spark").rglob("*.py"))]
    read = 0
    for path in paths:
        for text in strings_of(path):
            for clause in clauses_of(text) if "match_recognize" in text.lower() else [text] if "PATTERN" in text else []:
                if parse(clause) and not BEYOND_THE_SUBSET.search(clause):
                    assert accepts(clause), (path.name, clause)
                    read += 1
    assert read > 500


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


def in_the_grammar(clause: MatchClause) -> bool:
    """What the parser leaves to the plan, or reads though the grammar's part of the expressions leaves it out.

    Sizes and counts are numbers or intervals; no word of expressions is a function's or a column's name, and no expression is a row
    of several.
    """
    numbers: list[Expr] = [weight for pref in clause.preferences() for _, weight in pref.weights]
    extents: list[tuple[Expr, bool]] = [
        (e, rows) for s in clause.sequences for e, rows in ((s.size, s.rows), (s.step, s.step_rows)) if e is not None
    ]
    if clause.approx:
        numbers += [clause.approx.k, *(w for _, w in clause.approx.weights)]
    if clause.window:
        extents.append((clause.window.size, clause.window.rows))
        if clause.window.slide is not None:
            extents.append((clause.window.slide, clause.window.slide_rows))
    if clause.speculate is not None and clause.speculate.size is not None:
        extents.append((clause.speculate.size, False))
    patterns = [clause.pattern, *(sequence.pattern for sequence in clause.sequences)]
    groups = [(node.size, node.rows) for pattern in patterns for node in walk(pattern) if isinstance(node, Within)]
    return (
        all(map(is_number, numbers))
        and all(is_constant(e) for e, _ in extents)
        and all((e.op == "interval" and not rows) or is_number(e) for e, rows in groups)
        and (clause.top is None or (is_number(clause.top.k) and clause.top.k.value.isdigit()))
        and not any(measure.name.upper() == "SEQUENCE" for measure in clause.measures)  # the grammar reads it only after AS
        and not any((e.op, e.value) == ("special", "row") for top in expressions_of(clause) for e in top.walk())
        and not any(is_expression_word(e, clause.text) for top in expressions_of(clause) for e in top.walk())
    )


def is_expression_word(e: Expr, text: str) -> bool:
    """Whether a column or function has a word of expressions as its name, without backquotes."""
    name = e.value if e.op == "call" else e.value[0] if e.op == "col" else ""
    return name.upper() in words_of("_expression_word") | {"FROM"} and not text[e.span.start : e.span.end].startswith("`")


def expressions_of(clause: MatchClause) -> Iterator[Expr]:
    yield from clause.partition_by
    yield from (item.expr for item in clause.order_by)
    yield from (measure.expr for measure in clause.measures)
    yield from (objective for pref in clause.preferences() for _, objective in pref.objectives)
    yield from (definition.condition for definition in clause.defines)
    yield from clause.automaton.expressions() if clause.automaton else ()
    yield from [clause.lifetime.end] if clause.lifetime else []
    yield from [e for e in (clause.changes.column, *clause.changes.arrival, clause.changes.consecutive, clause.changes.punctuate) if e is not None] if clause.changes else []


def breaks_a_side_condition(text: str) -> bool:
    """Whether a text breaks a rule of the README that the parser checks: options once, sound bounds, names of objectives."""
    found = tree(text)
    assert found is not None
    parts = [child for child in found.children if child.data in OPTIONS]
    own = {i for i, part in enumerate(parts) if part.data == "pref" and i and parts[i - 1].data == "sequence" and _follows(found, parts[i - 1], part)}
    options = ["pref" if p.data == "pref_sequences" else p.data for i, p in enumerate(parts) if p.data != "sequence" and i not in own]
    if any(i not in own and any(part.find_data("objective_name")) for i, part in enumerate(parts)):
        return True
    if len(options) != len(set(options)) or ({"weights", "approx_report", "budget"} & set(options) and "approx" not in options):
        return True
    for node in found.iter_subtrees():
        bounds = [int(t) for t in node.scan_values(lambda t: t.type == "INTEGER")] if node.data in BOUNDED else []
        if bounds and (bounds[-1] < 1 or bounds[0] > bounds[-1]):
            return True
    return False


def _follows(found: Tree, first: Tree, second: Tree) -> bool:
    """Whether no other part of the clause is between two parts."""
    places = [id(child) for child in found.children]
    return places.index(id(second)) == places.index(id(first)) + 1


OPTIONS = {"sequence", "pref_sequences", "event_selection", "window", "lifetime", "approx", "weights", "approx_report", "budget", "pref", "top"}
BOUNDED = {"exactly", "at_most", "bounded"}


def is_constant(e: Expr) -> bool:
    """Whether the grammar reads a size: numbers, intervals and arithmetic without signs."""
    return is_number(e) or e.op == "interval" or (e.op in ("bin", "paren") and e.value in (None, *"+-*/%", "DIV") and all(map(is_constant, e.args)))


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


@pytest.mark.parametrize("seed", seeds(STATEMENTS))
def test_statements_are_rewritten_or_give_an_error_with_its_place(seed):
    """Whole statements, valid by the grammar or broken, through every step that needs no Spark."""
    generator = Generator(Random(seed + 3), max_nesting=3)
    mutator = Mutator(generator)
    for number in range(STATEMENTS // BATCHES):
        pieces = generator.pieces("match_clause")
        clause = mutator.text(pieces) if number % 2 else generator.layout(pieces)
        sql = f"SELECT *\nFROM t MATCH_RECOGNIZE ({clause}\n) AS m"
        try:
            assert "match_recognize(" in rewrite(sql).lower()
        except ClauseError as error:
            assert_place(error, sql)


@pytest.mark.parametrize("seed", seeds(BROKEN))
def test_broken_clauses_give_an_error_with_its_place(seed):
    generator = Generator(Random(seed + 1))
    mutator = Mutator(generator)
    refused = 0
    for _ in range(BROKEN // BATCHES):
        refused += parse(mutator.text(generator.pieces("match_clause"))) is None
    assert refused > BROKEN // BATCHES // 2  # the mutator does break them


# The words that the parser looks past and the grammar does not (grammar/README.md, "Names").
OPTION = "(?:PATTERN|AUTOMATON|EVENT|WINDOW|WITHIN|LIFETIME|CHANGES|REPORT|SPECULATE|APPROX|PREF|TOP)"
LOOKED_PAST = re.compile(rf"\b(?:YEAR|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S? TO |\bSKIP TO (?:FIRST|LAST) {OPTION} {OPTION}\b", re.I)


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
        if LOOKED_PAST.search(text):
            continue
        clause = parse(text)
        by_parser = clause is not None and in_the_grammar(clause)
        by_grammar = accepts(text) and not breaks_a_side_condition(text)
        assert by_parser == by_grammar, (by_parser, text)
        read += by_parser
    assert 0 < read < SKELETONS // BATCHES


# -- size and depth -------------------------------------------------------------------------------------------

DEEP = 5000
EXPRESSION = "PATTERN (A) DEFINE A AS {}"
PATTERN = "PATTERN ({}) DEFINE A AS price > 1"
NESTS = {  # the text around, what opens a level, the innermost, what closes a level
    "parentheses": (EXPRESSION, "(", "x", ")"),
    "calls": (EXPRESSION, "abs(", "x", ")"),
    "not": (EXPRESSION, "NOT ", "x", ""),
    "minus": (EXPRESSION, "- ", "x", ""),
    "tilde": (EXPRESSION, "~", "x", ""),
    "case": (EXPRESSION, "CASE WHEN x THEN ", "1", " END"),
    "cast": (EXPRESSION, "CAST(", "x", " AS int)"),
    "subscripts": (EXPRESSION, "x[", "1", "]"),
    "subscript chain": (EXPRESSION, "", "x", "[1]"),
    "field chain": (EXPRESSION, "", "f(x)", ".y"),
    "cast chain": (EXPRESSION, "", "x", "::int"),
    "lambdas": (EXPRESSION, "f(x -> ", "x", ")"),
    "in": (EXPRESSION, "x IN (", "1", ")"),
    "between": (EXPRESSION, "1 BETWEEN (", "1", ") AND 2"),
    "sum": (EXPRESSION, "", "x", " + 1"),
    "mixed operators": (EXPRESSION, "x OR x AND NOT x = x | x ^ x & x << x + x * - (", "x", ")"),
    "filter": (EXPRESSION, "count(*) FILTER (WHERE ", "x", ")"),
    "groups": (PATTERN, "(", "A", ")"),
    "quantified groups": (PATTERN, "(", "A", ")*"),
    "exclusions": (PATTERN, "{- ", "A", " -}"),
    "permutations": (PATTERN, "PERMUTE(", "A", ", B)"),
    "mixed patterns": (PATTERN, "B | B & B ~(", "A", ")"),
    "windows": (PATTERN, "(", "A", ") WITHIN INTERVAL '1' DAY"),
}


def nested(kind: str, depth: int) -> str:
    around, opening, core, closing = NESTS[kind]
    return around.format(opening * depth + core + closing * depth)


@pytest.mark.parametrize("kind", one_in(6, NESTS, wider=4))
def test_deep_nesting_is_an_error(kind):
    assert_refused_quickly(nested(kind, DEEP))


@pytest.mark.parametrize("opening", ["(", "abs(", "CASE WHEN ", "x[", "x IN (", "f(x -> "])
def test_deep_nesting_that_is_never_closed_is_an_error(opening):
    assert_refused_quickly(EXPRESSION.format(opening * DEEP))


@pytest.mark.parametrize("opening", ["(", "{-", "PERMUTE(", "~", "A | ("])
def test_a_deep_pattern_that_is_never_closed_is_an_error(opening):
    assert_refused_quickly(PATTERN.format(opening * DEEP))


@pytest.mark.parametrize("kind", one_in(6, NESTS, wider=4))
def test_what_is_not_too_deep_prints_and_compares(kind):
    """Up to the limit no later step runs out of stack: at small depths, and at each that is tried on the way to the limit."""
    read, most, refused = 0, 0, DEEP

    def is_read(depth: int) -> bool:
        clause = parse(nested(kind, depth))
        if clause is None:
            return False
        again = parse_clause(to_sql(clause))
        assert again == clause and hash(again) == hash(clause) and repr(clause)
        return True

    for depth in range(1, 20):
        if is_read(depth):
            read, most = read + 1, depth
    while refused > most + 1:
        middle = (most + refused) // 2
        if is_read(middle):
            read, most = read + 1, middle
        else:
            refused = middle
    assert read >= 10


TOO_LONG = {
    "pattern": f"PATTERN ({'A ' * 500_000}) DEFINE A AS x",
    "alternation": f"PATTERN ({'A | ' * 250_000}A) DEFINE A AS x",
    "conditions": "PATTERN (A) DEFINE A AS x" + " AND x" * 170_000,
    "measures": "MEASURES " + ", ".join(f"x AS m{i}" for i in range(80_000)) + " PATTERN (A)",
    "string": f"PATTERN (A) DEFINE A AS x = '{'a' * 1_000_000}'",
    "name": f"PATTERN (A) DEFINE A AS {'a' * 1_000_000}",
    "number": f"PATTERN (A) DEFINE A AS {'1' * 1_000_000}",
    "comment": f"PATTERN (A) /* {'*' * 1_000_000} */",
    "blanks": f"PATTERN (A){' ' * 1_000_000}",
    "open string": f"PATTERN (A) DEFINE A AS '{chr(92) * 1_000_000}",
    "parentheses": "(" * 1_000_000,
    "quotes": "'" * 1_000_001,
}


@pytest.mark.parametrize("kind", TOO_LONG)
def test_a_megabyte_is_an_error(kind):
    assert len(TOO_LONG[kind]) > 900_000
    assert_refused_quickly(TOO_LONG[kind])


def assert_refused_quickly(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ClauseError) as raised:
        parse_clause(text)
    assert time.process_time() - start < 60  # a cost that grows with the square takes hours
    assert_place(raised.value, text)
    assert len(str(raised.value)) < 1000
