"""Our tokens are those of Spark's own lexer: of random texts, and of all statements of the cases and the examples."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from sparkcep.clause.tokens import OP, STRING, tokenize
from sparkcep.errors import ClauseError
from tests.selection import one_in

ROOT = Path(__file__).resolve().parents[3]
_TOKEN = re.compile(r"\[@-?\d+,(\d+):(-?\d+)='.*?',<\d+>(,channel=\d+)?,\d+:\d+\]", re.S)
# a hint's words and its end, a location, and a text between dollars begin tokens of Spark's that are none of ours
OTHER = re.compile(r"/\*\+|\*/\*|://|\$\w*\$")
PIECES = [
    *"'\"`()[]{},;.|&?:^~!<>=+-*/%$@#_\\", "''", "``", " ", " ", "\n", "\r\n", "\t", "/*", "*/", "--", "-- it's \\\n", "a", "B1", "2nd", "1", "0", "007", ".5", "1.", "1e", "1e5",
    "1E-5", "1e+", "12L", "2.5BD", "1.5f", "3d", "7S", "1Y", "1.e3", "1_0", "x", "X'1F'", "r'\\'", 'R"\\"', "'it\\'s'", "n'x'", "0x1F", "0b1", "é", "größe", "{-", "-}", "{{", "}}",
    "{%", "{#", "||", "??", "::", "->", "=>", "<=>", ">>>", "ORDER BY", "ORDER\n BY", "PARTITION BY", "DOUBLE PRECISION", "USER-DEFINED", "EXPLAIN", "OPTIMIZE", "EXECUTE IMMEDIATE",
    "SHOW", "CALL", "BEGIN", "MATCH_RECOGNIZE", "L", "e", "E5",
]  # fmt: skip


@pytest.fixture(scope="module")
def lexed(spark):
    """(start, end) of each token of Spark's lexer."""
    jvm = spark._jvm
    package = jvm.org.apache.spark.sql.catalyst.parser

    def of(text: str) -> list[tuple[int, int]]:
        lexer = package.SqlBaseLexer(package.UpperCaseCharStream(jvm.org.antlr.v4.runtime.CharStreams.fromString(text)))
        lexer.removeErrorListeners()
        found = _TOKEN.finditer(lexer.getAllTokens().toString())
        return [(int(m[1]), int(m[2]) + 1) for m in found if m[3] is None]

    return of


def _single(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The places, those of operators sign by sign."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        signs = not re.search(r"[\w'\"`]", text[start:end])
        out += [(i, i + 1) for i in range(start, end)] if signs else [(start, end)]
    return out


def _ours(text: str) -> list[tuple[int, int]] | None:
    """The places of our tokens; None where a literal, a name or a comment has no end."""
    try:
        tokens = tokenize(text)[:-1]
    except ClauseError as error:
        assert error.error_class.startswith("SPARKCEP.UNTERMINATED"), text
        return None
    out: list[tuple[int, int]] = []
    for t in tokens:
        assert t.text == text[t.start : t.end] and (t.kind != OP or len(t.text) == 1)
        binary = t.kind == STRING and t.text[0] in "xX"  # one token of ours, two of Spark's
        out += [(t.start, t.start + 1), (t.start + 1, t.end)] if binary else [(t.start, t.end)]
    return out


def _compare(lexed, seed: int, number: int) -> None:
    rng, compared = random.Random(seed), 0
    while compared < number:
        text = ""
        for piece in rng.choices(PIECES, k=rng.randrange(1, 14)):
            apart = re.search(r"[\w.]$", text) and re.match(r"[\w.]", piece)  # numbers that touch others are no SQL
            text += f" {piece}" if apart else piece
        ours = _ours(text)
        if ours is None or OTHER.search(text):
            continue
        assert ours == _single(text, lexed(text)), text
        compared += 1


def test_random_texts_have_the_tokens_of_spark(lexed):
    _compare(lexed, 1, 700)


@pytest.mark.slow
def test_many_random_texts_have_the_tokens_of_spark(lexed):
    _compare(lexed, 2, 30_000)


@pytest.mark.parametrize("path", one_in(16, sorted([*ROOT.glob("tests/cases/**/*.test"), *ROOT.glob("sql_examples/**/*.sql")]), wider=2), ids=lambda path: path.stem)
def test_statements_have_the_tokens_of_spark(lexed, path):
    for text in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        ours = _ours(text)
        if ours is not None and not OTHER.search(text):
            assert ours == _single(text, lexed(text)), text


SHIFTS = [
    "SELECT * FROM (SELECT id, id >> 1 AS f FROM range(3)) MATCH_RECOGNIZE (ORDER BY id MEASURES count(*) AS n PATTERN (A+)) WHERE n >> 1 = 1",
    "SELECT * FROM range(3) MATCH_RECOGNIZE (PARTITION BY id ORDER BY id MEASURES median(id) AS n PATTERN (A+) DEFINE A AS id >> 1 >= A.id >> 1) WHERE id >> 1 = 1",
    "SELECT * FROM range(1, 4) MATCH_RECOGNIZE (ORDER BY id MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS sum(10 / A.id) > 1 AND id >> 1 = 1)",
    "SELECT * FROM range(1, 4) MATCH_RECOGNIZE (ORDER BY id MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS count(DISTINCT B.id, B.id % 2) > 0 AND id >> 1 = 1)",
    "SELECT * FROM range(1, 4) MATCH_RECOGNIZE (ORDER BY id MEASURES count(DISTINCT id, id % 2) + LAST(id) >> 1 AS n PATTERN (A+) DEFINE A AS id >> 1 < 2)",
]


@pytest.mark.parametrize("statement", SHIFTS)
def test_the_rewriters_own_words_leave_shifts_alone(spark, statement):
    """After the words ARRAY, MAP and STRUCT, Spark's lexer takes two > for the end of two types."""
    assert spark.sql(statement).columns[-1] == "n"
