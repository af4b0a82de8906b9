"""Our reader of expressions means what Spark's parser means: a text and the same text with all of our tree's brackets are one
expression to Spark."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sparkcep.clause.expressions import Cursor, Expr, ExpressionParser
from sparkcep.clause.tokens import END, Span, tokenize
from sparkcep.errors import ClauseError
from tests.property.clause.expression_texts import Texts, bracketed

LONGEST, DEEPEST = 250, 6  # Spark's parser takes seconds over some longer texts, and twice as long for each further bracket around

TEXTS = """v * PREV(x) DIV 7
v DIV x * y DIV z
a || b + c || d - e
a | b ^ c & d << e + f
a >> b >>> c << d
a & b = c | d
a = b <> c <= d
a = b IN (1)
a < b LIKE c = d
a <=> b IS NULL
a IS DISTINCT FROM b = c
a BETWEEN b = c AND d < e
NOT a = b AND c
NOT a IN (b) OR ! c
a !< b !> c
-1L::INT
- -1L::INT
-x::INT
~-1L::SMALLINT
+1::STRING
-1.5BD::DECIMAL(3, 1)[0]
- 1 * -2::INT
X '1010' || x'AB'
a -> b + c = d OR e
'a' 'b'.f
1.f
INTERVAL -3 MONTHS * 2
INTERVAL '1' DAY + INTERVAL '2' HOUR * 3
CASE a = b WHEN c OR d THEN e + f ELSE g AND h END
cast(a + b AS MAP<STRING, ARRAY<INT>>) >> 2
a::ARRAY<INT>[b + c].d
position(a = b IN c || d)
trim(BOTH a || b FROM c = d)
1 /* a /*+ b */ + 2
1 -- it \\
 goes 'on
 + 2"""


@pytest.fixture(scope="module")
def tree(spark):
    """Spark's tree of an expression as text, None where Spark refuses it."""
    package = spark._jvm.org.apache.spark.sql.catalyst.parser
    parser = getattr(getattr(package, "CatalystSqlParser$"), "MODULE$")
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    def of(text: str) -> str | None:
        try:
            read = parser.parseExpression(f"f({text}\n)").treeString()  # in a call, so that no alias may stand behind it
        except PySparkException:
            return None
        except Py4JJavaError as error:
            # as where Spark's parser asks a COLLATE in a predicate for its type, or knows no such literal of a type
            if not any(words in str(error) for words in ("INTERNAL_ERROR", "scala.MatchError")):
                raise
            return None
        return re.sub(r"(?<=\b[uv])_\d+|#\d+", "", read)  # numbers that each parse gives anew

    logging.disable(logging.CRITICAL)
    # the parser keeps what it has decided about all texts, which fills the heap of a test's driver after some ten thousand
    kept = {"spark.sql.parser.manageParserCaches": "true", "spark.sql.parser.parserDfaCacheFlushThreshold": "100000"}
    for name, value in kept.items():
        spark.conf.set(name, value)
    yield of
    for name in kept:
        spark.conf.unset(name)
    logging.disable(logging.NOTSET)


def _read(text: str) -> Expr:
    cursor = Cursor(text, tokenize(text))
    node = ExpressionParser(cursor).parse()
    assert cursor.token.kind == END, text
    return node


@pytest.mark.parametrize("text", re.split(r"\n(?! )", TEXTS))
def test_precedence_is_that_of_spark(tree, text):
    assert tree(text) is not None
    assert tree(bracketed(text, _read(text))) == tree(text)


def _items(statement: str) -> Iterator[tuple[str, Expr]]:
    """The expressions behind SELECT, each with its text from there on."""
    cursor = Cursor(statement, tokenize(statement))
    cursor.expect_word("SELECT", "first")
    while True:
        cursor.take_word("DISTINCT")
        node = ExpressionParser(cursor).parse()
        yield node.span.of(statement), node
        if cursor.take_word("AS"):
            cursor.next()
        if not cursor.take_op(","):
            return


def _moved(node: Expr, by: int) -> Expr:
    return replace(node, span=Span(node.span.start - by, node.span.end - by), args=tuple(_moved(arg, by) for arg in node.args))


@pytest.mark.further
def test_examples_of_all_functions_are_read_as_spark_reads_them(spark, tree):
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    names, read, refused = registry.listFunction().iterator(), set(), []
    while names.hasNext():
        examples = registry.lookupFunction(names.next()).get().getExamples()
        for statement in re.findall(r"^\s*> (SELECT .*?);\s*$", examples, re.M | re.S):
            try:
                for text, node in _items(statement):
                    if text not in read and tree(text) is not None:
                        assert tree(bracketed(text, _moved(node, node.span.start))) == tree(text), text
                        read.add(text)
            except ClauseError as error:
                refused.append((statement, error))
    assert len(read) > 1_000
    assert [statement for statement, error in refused if error.error_class != "SPARKCEP.WINDOW_FUNCTION"] == []
    assert len(refused) < 20


def _nesting(text: str) -> int:
    """How deep the brackets of a text lie in each other, those in strings counted too."""
    depth = deepest = 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        deepest = max(deepest, depth)
    return deepest


def _compare(tree, seed: int, number: int) -> None:
    texts, taken = Texts(random.Random(seed)), 0
    while taken < number:
        text = texts.expression()
        plain = tree(text) if len(text) <= LONGEST and _nesting(text) <= DEEPEST and not re.search(r"--(?! - it's\n)", text) else None  # two signs begin a comment
        more = None if plain is None else bracketed(text, _read(text))
        if more is not None and _nesting(more) <= DEEPEST:
            assert tree(more) == plain, text
            taken += 1


@pytest.mark.further
def test_random_expressions_are_read_as_spark_reads_them(tree):
    _compare(tree, 1, 300)


@pytest.mark.slow
def test_many_random_expressions_are_read_as_spark_reads_them(tree):
    _compare(tree, 2, 20_000)
