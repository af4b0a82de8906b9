"""Names in double quotes, as under spark.sql.ansi.doubleQuotedIdentifiers, where there is no Spark."""

from __future__ import annotations

import pytest

from sparkcep.clause.identifiers import backticked
from sparkcep.cli.cli import main
from sparkcep.dialect.transpile import transpile
from sparkcep.errors import ClauseError
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewrite import rewrite
from sparkcep.tools.fmt import format_sql
from sparkcep.tools.lint import lint

STATEMENT = """SELECT "n" FROM "t" MATCH_RECOGNIZE (partition by "m" ORDER BY "ts" MEASURES LAST("k""wh") AS "n" PATTERN ("A" F+) DEFINE F AS F."kwh" < PREV("kwh") AND s = 'a"b')"""
QUOTED = Settings(double_quoted=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a"', "`a`"),
        ('"a""b" . c', '`a"b`  . c'),
        ("""'"a"' || "b" -- "c"\n /* "d" */ `e"f`""", """'"a"' || `b` -- "c"\n /* "d" */ `e"f`"""),
        ('r"a" "b"', 'r"a" `b`'),  # a raw string
        ('"a`b"', "`a``b`"),
        ('"a\\"b"', '`a\\"b`'),
    ],
)
def test_backticks_stand_for_double_quotes(text, expected):
    assert backticked(text) == expected


def test_places_stay_where_they_are():
    read = backticked(STATEMENT)
    assert len(read) == len(STATEMENT)
    assert [i for i, (one, other) in enumerate(zip(STATEMENT, read)) if one != other and one != '"'] == [STATEMENT.index('"wh"') + 1, STATEMENT.index('"wh"') + 2]


def test_a_statement_is_that_with_backticks():
    assert rewrite(STATEMENT, settings=QUOTED) == rewrite(backticked(STATEMENT))
    assert rewrite('SELECT "a" FROM t', settings=QUOTED) == 'SELECT "a" FROM t'


def test_errors_have_their_place():
    with pytest.raises(ClauseError) as caught:
        rewrite('SELECT * FROM t MATCH_RECOGNIZE (ORDER BY "ts" MEASURES LAST("a",) AS "n" PATTERN (A))', settings=QUOTED)
    assert caught.value.column == 66


def test_tools_read_names_in_double_quotes():
    formatted = format_sql(STATEMENT, double_quoted=True)
    assert 'PARTITION BY "m" ORDER BY "ts"' in formatted
    assert format_sql(formatted, double_quoted=True) == formatted
    assert '"k""wh"' in formatted and "'a\"b'" in formatted and "`" not in formatted
    assert [finding.code for finding in lint(STATEMENT, double_quoted=True)] == ["ANY_ROW"]
    assert [finding.code for finding in lint(STATEMENT)] == ["SPARKCEP.SYNTAX"]
    assert [finding.code for finding in lint('SELECT "a', double_quoted=True)] == ["SPARKCEP.UNTERMINATED_LITERAL"]
    assert 'F."kwh" < PREV("kwh")' in transpile(STATEMENT, "spark", "trino", double_quoted=True).sql


def test_commands_have_an_option(tmp_path, capsys):
    file = tmp_path / "a.sql"
    file.write_text(STATEMENT)
    option = "--double-quoted-identifiers"
    assert main(["lint", option, str(file)]) == 0
    assert main(["lint", str(file)]) == 2
    assert not main(["rewrite", option, str(file)])
    assert "`kwh` AS __c" in capsys.readouterr().out
    assert not main(["explain", option, str(file)])
    assert not main(["transpile", option, "--read", "spark", "--write", "trino", str(file)])
    assert main(["fmt", option, "--check", str(file)]) == 1
    assert main(["fmt", option, str(file)]) == 0
    assert file.read_text() == format_sql(STATEMENT, double_quoted=True)
