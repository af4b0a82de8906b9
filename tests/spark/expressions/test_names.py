"""Columns that are called like words of SQL or of the clause mean what a column of any other name means: in each shape of an
expression as Spark's own parser says, in each function and each part of the clause as beside a neutral name.

The whole sweep: ``python -m pytest -n 0 -m "" tests/spark/expressions/test_names.py -s``; it prints what it compared.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator

import pytest

from sparkcep.clause.expressions import NAMED_FUNCTIONS as LITERAL_FUNCTIONS
from sparkcep.clause.expressions import Cursor, Expr, ExpressionParser
from sparkcep.clause.possible_columns import uncounted
from sparkcep.clause.tokens import END, tokenize
from sparkcep.errors import ClauseError
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewrite import rewrite
from tests.selection import further, slow
from tests.spark.expressions.column_names import (
    ANSI_RESERVED,
    CALLS,
    CLAUSES,
    CONSTANTS,
    NAMED_FUNCTIONS,
    ROWS,
    SHAPES,
    UNIT_FUNCTIONS,
    UNITS,
    WORDS,
    all_names,
    neutral,
    renamed,
)

COLUMNS = Settings(columns=frozenset(map(str.upper, NAMED_FUNCTIONS)))
# functions whose arguments Spark's grammar knows; of others it knows the name alone
OF_THE_GRAMMAR = UNIT_FUNCTIONS | frozenset("trim overlay substring substr position extract first last any_value count sum date_sub abs coalesce if".split())
SAMPLE = "day end by case then when from over group distinct not with all leading trailing for both placing pattern define window top pref match current_date".split()
QUOTES = {"plain": "{}", "backticks": "`{}`", "double quotes": '"{}"'}


@pytest.fixture(scope="module")
def names(spark) -> list[str]:
    found = all_names(row.keyword for row in spark.sql("SELECT keyword FROM sql_keywords()").collect())
    assert len(found) > 480
    return found


@pytest.fixture(scope="module")
def attributes(spark) -> Iterator[Callable[[str], list[str] | None]]:
    """The names that Spark's parser takes for columns in an expression; None where it refuses the text."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    package = spark._jvm.org.apache.spark.sql.catalyst.parser
    parser = getattr(getattr(package, "CatalystSqlParser$"), "MODULE$")

    def of(text: str) -> list[str] | None:
        try:
            read = parser.parseExpression(f"f({text})").toString()  # in a call, so that no alias may stand behind it
        except (PySparkException, Py4JJavaError):
            return None
        read = re.sub(r"INTERVAL '[^']*'", " ", read)
        arrow = re.search(r"(\w+|\(\w+, \w+\)) ->", text)
        parameters = set(re.findall(r"\w+", arrow[1])) if arrow else set()
        return sorted({name.lower() for name in re.findall(r"'([A-Za-z_][\w.]*)(?![\w.(])", read)} - parameters)

    logging.disable(logging.CRITICAL)
    kept = {"spark.sql.parser.manageParserCaches": "true", "spark.sql.parser.parserDfaCacheFlushThreshold": "100000"}
    for name, value in kept.items():
        spark.conf.set(name, value)
    yield of
    for name in kept:
        spark.conf.unset(name)
    logging.disable(logging.NOTSET)


def _counted(text: str) -> list[str] | str:
    """The columns that our reader counts in an expression; the error's message where it refuses the text."""
    text = f"f({text})"  # as Spark reads it here
    tokens = tokenize(text)
    cursor = Cursor(text, tokens, columns=LITERAL_FUNCTIONS)
    try:
        expr = ExpressionParser(cursor).parse()
    except ClauseError as error:
        return error.message
    if cursor.token.kind != END:
        return f"ends before {cursor.token.text}"
    return sorted({".".join(node.value).lower() for node in _columns(expr)})


def _columns(expr: Expr, bound: frozenset[str] = frozenset()) -> Iterator[Expr]:
    bound |= frozenset(expr.value) if expr.op == "lambda" else frozenset()
    if expr.op == "col" and expr.value[0].lower() not in bound:
        yield expr
    for arg in expr.args:
        yield from _columns(arg, bound)


def _compare_shapes(attributes, names: list[str]) -> tuple[int, int, list[tuple]]:
    """How many texts were compared, how many Spark refuses, and those that differ."""
    compared, refused, different = 0, 0, []
    for name in names:
        for shape in SHAPES:
            text = shape.format(n=name)
            theirs = attributes(text)
            if theirs is None:
                refused += 1
                continue
            compared += 1
            if (ours := _counted(text)) != theirs:
                different.append((text, ours, theirs))
    return compared, refused, different


@pytest.mark.parametrize("part", [slow(0), further(1), slow(2), slow(3)])
def test_columns_of_some_names_are_those_that_spark_sees(attributes, part):
    compared, refused, different = _compare_shapes(attributes, ["zq", *SAMPLE][part::4])
    assert different == []
    assert compared > 500 and refused < compared // 3


@pytest.mark.slow
def test_columns_of_all_names_are_those_that_spark_sees(attributes, names):
    compared, refused, different = _compare_shapes(attributes, [name for name in names if name not in CONSTANTS])
    print(f"{compared} expressions compared, {refused} refused by Spark, {len(different)} differ")
    assert different == []
    assert compared > 50_000


def _rewritten(text: str, settings: Settings) -> str:
    """The statement that Spark is given, without how its parts begin, or the class of the error."""
    try:
        return re.sub(r'"text":"(?:[^"\\]|\\.)*"', "", rewrite(f"SELECT * FROM t MATCH_RECOGNIZE ({text})", settings=settings))
    except ClauseError as error:
        return error.error_class


def _plain(text: str, name: str) -> str:
    """``text`` without quotes around the name, which some names get where an expression is moved."""
    return text.replace(f"`{name}`", name).replace(f"\\u0060{name}\\u0060", name)


def _differences(templates: list[str], names: list[str], settings: Settings, quotes: str = "{}") -> tuple[int, list[tuple]]:
    """How many clauses were compared with those of a neutral name, and those that differ."""
    expected: dict[tuple[int, str], str] = {}
    compared, different = 0, []
    for name in names:
        other = neutral(name)
        for i, template in enumerate(templates):
            if (i, other) not in expected:
                expected[i, other] = _rewritten(template.replace("{n}", quotes.format(other)), settings)
            found = _rewritten(template.replace("{n}", quotes.format(name)), settings)
            compared += 1
            if _plain(found, name) != _plain(renamed(expected[i, other], name), name) and not (name == "not" and "{n} DESC" in template):  # NOT desc, to Spark too
                different.append((name, template, found))
    return compared, different


@pytest.mark.parametrize("quotes", QUOTES)
def test_each_part_of_the_clause_takes_some_names(quotes):
    settings = Settings(double_quoted=quotes == "double quotes", columns=COLUMNS.columns)
    compared, different = _differences(list(CLAUSES.values()), SAMPLE if quotes == "plain" else SAMPLE[:5], settings, QUOTES[quotes])
    assert different == []
    assert compared >= 55


@pytest.mark.slow
@pytest.mark.parametrize("quotes", QUOTES)
def test_each_part_of_the_clause_takes_all_names(names, quotes):
    settings = Settings(double_quoted=quotes == "double quotes", columns=COLUMNS.columns)
    taken = [name for name in names if quotes != "plain" or name not in CONSTANTS]
    compared, different = _differences(list(CLAUSES.values()), taken, settings, QUOTES[quotes])
    print(f"{compared} clauses compared, {len(different)} differ")
    assert different == []


def _functions(spark) -> list[str]:
    found = [row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    return sorted(name for name in found if re.fullmatch(r"[a-z]\w*", name) and name not in ("cast", "try_cast", "case", "not", "and", "or", "in", "like", "ilike", "rlike", "between", "div", "when", "struct"))


def _tree(text: str) -> str:
    """The tree of an expression as text, or the error's message without what was found."""
    cursor = Cursor(text, tokenize(text), columns=LITERAL_FUNCTIONS)
    try:
        return repr((ExpressionParser(cursor).parse(), cursor.token))
    except ClauseError as error:
        return error.message.partition(", found")[0]


def _calls(functions: list[str], names: list[str]) -> tuple[int, list[tuple]]:
    """How many calls were read, and those that are read otherwise than with a neutral name."""
    compared, different = 0, []
    for function in functions:
        for call in (re.sub(r"\bf\(", f"{function}(", call) for call in CALLS):
            expected = {len(name): _tree(call.replace("{n}", neutral(name))) for name in names}
            for name in names:
                compared += 1
                # as Spark's grammar has it, the first of three arguments is a unit, DISTINCT, ALL and NOT go before a sign, and
                # NOT ELSE REGEXP (x, y) is a comparison of a column called else
                other = (function in UNIT_FUNCTIONS and name in UNITS and "{n}, {n}, FIRST" in call) or (name in ("distinct", "all", "not") and "({n} -" in call)
                other = other or (function == "regexp" and name == "not" and "{n} ELSE" in call)
                if (_tree(call.replace("{n}", name)) == renamed(expected[len(name)], name)) == other:
                    different.append((function, call, name))
    return compared, different


def test_some_functions_take_some_names(spark):
    functions = [*sorted(UNIT_FUNCTIONS), "date_sub", "trim", "overlay", "substring", "position", "extract", "abs", "coalesce", "if"]
    compared, different = _calls(functions, ["day", "leading", "from", "end", "for", "placing", "both", "distinct", "all", "current_date"])
    assert different == []
    assert compared > 800


@pytest.mark.slow
def test_all_functions_take_all_names(spark, names):
    functions = _functions(spark)
    assert len(functions) > 450
    taken = [name for name in names if name in {*UNITS, *SAMPLE, *NAMED_FUNCTIONS, *WORDS, *ANSI_RESERVED} and name not in CONSTANTS]
    assert len(taken) > 140
    compared, different = _calls(sorted(OF_THE_GRAMMAR), taken)
    of_others, found = _calls([name for name in functions if name not in OF_THE_GRAMMAR], sorted({*SAMPLE, *UNITS}))
    compared, different = compared + of_others, different + found
    print(f"{compared} calls compared of {len(functions)} functions and {len(taken)} names, {len(different)} differ")
    assert different == []


def _rows(spark, name: str, quotes: str, clause: str) -> list[tuple]:
    """The rows of the clause over a table with one column called so, beside ``i``."""
    values = ", ".join(map(str, ROWS))
    written = quotes.format(name)
    found = spark.sql(f"SELECT * FROM (SELECT i, v AS `{name}` FROM VALUES {values} AS t(i, v)) MATCH_RECOGNIZE ({clause.replace('{n}', written)})")
    return sorted((tuple(map(str, row)) for row in found.collect()), key=str)


RUN = ["define", "case", "measures", "keys", "all rows", "pref", "automaton"]


def _compare_rows(spark, quoted: list[tuple[str, str]], parts: int = len(RUN)) -> int:
    """The number of results that were compared; each name is tried in so many parts, in turn."""
    compared, expected, different = 0, {}, []
    for i, (name, quotes) in enumerate(quoted):
        for part in (RUN[(i + k) % len(RUN)] for k in range(parts)):
            if part not in expected:
                expected[part] = _rows(spark, "zq", "{}", CLAUSES[part])
                assert expected[part]
            if _rows(spark, name, quotes, CLAUSES[part]) != expected[part]:
                different.append((name, quotes, part))
            compared += 1
    assert different == []
    return compared


@pytest.mark.further
def test_rows_of_some_names_are_those_of_a_neutral_one(spark):
    assert _compare_rows(spark, [("end", "{}"), ("current_date", "{}"), ("day", "{}")]) == 3 * len(RUN)


@pytest.mark.further
def test_rows_of_some_names_in_double_quotes(spark):
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        assert _compare_rows(spark, [("trailing", '"{}"'), ("null", '"{}"')]) == 2 * len(RUN)
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


@pytest.mark.parametrize("double_quoted", [slow("true"), slow("false")])
def test_rows_of_all_names_are_those_of_a_neutral_one(spark, names, double_quoted):
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", double_quoted)
    taken = [name for name in names if name not in ("i", "r", "s", "t", "best")]
    try:
        plain = [(name, "{}") for name in taken if name not in CONSTANTS]
        compared = _compare_rows(spark, plain if double_quoted == "false" else [(name, '"{}"') for name in taken], parts=1)
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    print(f"{compared} results compared, none differs")


def test_what_the_reader_overlooks_is_told_at_its_place(spark, monkeypatch):
    """A reader that counts a column as a unit, as ours once did: the second look at the words finds it, and Spark says that the
    table has such a column."""
    monkeypatch.setattr(ExpressionParser, "_commas", lambda self: 2)
    text = "SELECT * FROM VALUES (DATE'2020-01-01'), (DATE'2020-01-09') AS t(day) MATCH_RECOGNIZE (ORDER BY day MEASURES A.day AS a PATTERN (A B) DEFINE B AS datediff(day, PREV(day)) > 3)"
    with pytest.raises(ClauseError) as caught:
        spark.sql(text)
    assert caught.value.error_class == "SPARKCEP.COLUMN_OR_WORD"
    assert text[caught.value.column - 1 :].startswith("day, PREV(day)) > 3")


def test_words_of_spark_s_own_examples_are_all_counted(spark):
    """The second look finds nothing in expressions of all kinds but functions called without parentheses."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    functions, read, left = registry.listFunction().iterator(), 0, set()
    while functions.hasNext():
        examples = registry.lookupFunction(functions.next()).get().getExamples()
        for statement in re.findall(r"^\s*> SELECT (.*?);\s*$", examples, re.M | re.S):
            tokens = tokenize(statement)
            cursor = Cursor(statement, tokens)
            try:
                expr = ExpressionParser(cursor).parse()
            except ClauseError:
                continue
            read += 1
            left |= {span.of(statement).lower() for span in uncounted([expr], tokens)}
    assert left <= {name.lower() for name in LITERAL_FUNCTIONS}
    assert read > 800


def test_names_in_double_quotes_reach_the_jvm_s_parser_and_frames(spark):
    import sparkcep

    table = "SELECT * FROM VALUES (1, 5), (2, 3), (3, 4) AS t(id, v)"
    clause = 'ORDER BY "id" MEASURES A."id" AS "n" PATTERN ("A" B) DEFINE B AS "v" < PREV("v")'
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        statement = f'SELECT "n" FROM ({table}) MATCH_RECOGNIZE ({clause})'
        assert spark.sql(f"EXECUTE IMMEDIATE '{statement}'").collect() == spark.sql(statement).collect() == [(1,)]
        assert sparkcep.match_recognize(spark.sql(table), clause=clause, partition_by='"id" % 1').columns == ["`id` % 1", "n"]
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def test_a_clause_text_called_by_hand_knows_its_columns(spark):
    from pyspark.sql import types as T

    from sparkcep.spark.exec.table_function import _analyze_clause

    schema = T.StructType([T.StructField("id", T.IntegerType()), T.StructField("current_date", T.IntegerType())])
    text = "ORDER BY id MEASURES A.id AS i, LAST(current_date) AS c PATTERN (A B) DEFINE B AS current_date < PREV(current_date)"
    assert _analyze_clause(text, schema).schema["c"].dataType == T.IntegerType()
    with pytest.raises(ClauseError) as caught:
        _analyze_clause(text.replace("PREV(current_date)", 'PREV("id")'), schema)
    assert caught.value.error_class == "SPARKCEP.COLUMN_OR_WORD" and caught.value.fragment == '"id"'
