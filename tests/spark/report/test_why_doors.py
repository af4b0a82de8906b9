"""The ways to ask sparkcep.why: DataFrames, the command line, the shell and cells give the worked examples to the letter."""

from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("IPython")
pytest.importorskip("prompt_toolkit")

import sparkcep  # noqa: E402
from sparkcep.cli import cli  # noqa: E402
from sparkcep.cli.shell import Shell, finished, question  # noqa: E402
from sparkcep.errors import ToolError  # noqa: E402
from sparkcep.notebook import magic  # noqa: E402
from sparkcep.notebook.cell import CellError, Options, parse  # noqa: E402
from sparkcep.tracing.answers.answer import Why  # noqa: E402
from tests.selection import one_in  # noqa: E402
from tests.support.why_examples import EXAMPLES, Example  # noqa: E402


def statement(example: Example) -> str:
    return f"SELECT * FROM {example.table} MATCH_RECOGNIZE ({example.measured})"


@pytest.fixture
def ipython(spark):
    """An interactive shell with the magics, and the session of the tests."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.user_ns["spark"] = spark
    magic.load_ipython_extension(shell)
    yield shell
    magic.unload_ipython_extension(shell)


@pytest.fixture
def of_frame(spark):
    return lambda example: str(
        sparkcep.why(spark.sql(f"SELECT * FROM {example.table}"), clause=example.clause, at=example.at, **example.arguments)
    )


@pytest.fixture
def of_command(spark, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_with_spark", lambda options, work: work(spark))

    def answer(example: Example) -> str:
        words = ["--at", example.at] if example.at else []
        words += [word for name, value in example.arguments.items() for word in (f"--{name}", str(value))]
        assert cli.main(["why", "-e", statement(example), *words]) == 0
        return capsys.readouterr().out.rstrip("\n")

    return answer


@pytest.fixture
def of_shell(spark):
    def answer(example: Example) -> str:
        said: list[str] = []
        asked = f"AT ({example.at}) " if example.at else ""
        asked += "".join(f"{name.upper()} {value} " for name, value in example.arguments.items())
        Shell(spark, said.append).answer(f":why {asked}{statement(example)};")
        return "\n".join(said)

    return answer


@pytest.fixture
def of_cell(ipython):
    def answer(example: Example) -> str:
        asked = f' "{example.at}"' if example.at else ""
        asked += "".join(f" --{name} {value}" for name, value in example.arguments.items())
        why = ipython.run_cell_magic("sql", f"--why{asked}", statement(example))
        forms = ipython.display_formatter.format(why)[0]
        assert forms["text/html"] == why._repr_html_()
        return forms["text/plain"]

    return answer


DOORS = ("of_frame", "of_command", "of_shell", "of_cell")
WAYS = [
    pytest.param(example, DOORS[(i + j) % 4], id=f"{example.name}-{DOORS[(i + j) % 4]}")
    for i, example in enumerate(EXAMPLES)
    for j in range(4)
]


@pytest.mark.parametrize(("example", "door"), one_in(12, WAYS, wider=3))
def test_examples_through_each_door(example, door, request):
    assert request.getfixturevalue(door)(example) == example.text


# -- cells --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "cell", "expected"),
    [
        ("--why", "SELECT 1", Options("SELECT 1", why=True)),
        ('--why "day = 3" --expect UP', "SELECT 1", Options("SELECT 1", why=True, at="day = 3", expect="UP")),
        (
            "--why=\"symbol = 'A'\" --match 2 --which v SELECT 1",
            None,
            Options("SELECT 1", why=True, at="symbol = 'A'", match=2, which="v"),
        ),
        ("answer << --why SELECT 1", None, Options("SELECT 1", why=True, into="answer")),
        ("--why --read trino", "SELECT 1", Options("SELECT 1", why=True, read="trino")),
    ],
)
def test_options_of_a_cell(line, cell, expected):
    assert parse(line, cell) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--why --match two SELECT 1", "--match takes the number of a match above 0, not two"),
        ("--why --plot SELECT 1", "--why explains the rows of a statement, and does not go with --plot. Use two cells"),
        ("--why --explain --limit 3 SELECT 1", "does not go with --explain and --limit"),
        ("--expect UP SELECT 1", "--expect and --which belong to --why"),
        ("--why", "the SQL is missing"),
    ],
)
def test_wrong_options_of_a_cell(line, said):
    with pytest.raises(CellError) as caught:
        parse(line, None)
    assert said in str(caught.value)


def test_a_cell_runs_the_statements_before(ipython, capsys):
    """It binds the notebook's variables, and an answer may go into a variable."""
    ipython.user_ns["low"] = 4
    example = Example("", "ORDER BY t PATTERN (A) DEFINE A AS v > :low", "t v", "1 2", "")
    text = f"CREATE OR REPLACE TEMP VIEW why_cell AS SELECT * FROM {example.table}; SELECT * FROM why_cell MATCH_RECOGNIZE ({example.measured})"
    assert ipython.run_cell_magic("sql", 'answer << --why "t = 1"', text) is None
    assert isinstance(ipython.user_ns["answer"], Why) and ipython.user_ns["answer"].next[0].right == "4"
    with pytest.raises(CellError, match="expect needs a row"):
        ipython.run_cell_magic("sql", "--why --expect A", text)
    with pytest.raises(CellError, match="lacks a MATCH_RECOGNIZE clause"):
        ipython.run_cell_magic("sql", "--why", "SELECT 1")


def test_an_empty_result_of_a_cell_says_how_to_ask(ipython):
    """Only a statement with a clause asks, and only without rows."""
    table = ipython.run_cell_magic("sql", "", statement(EXAMPLES[1]))
    assert repr(table).splitlines()[-1] == "Ask why nothing matches: %%sql --why"
    assert "<small>0 rows. Ask why nothing matches: %%sql --why</small>" in table._repr_html_()
    assert repr(ipython.run_cell_magic("sql", "", "SELECT 1 AS x WHERE false")).splitlines()[-1] == "(0 rows)"
    assert "Ask why" not in repr(ipython.run_cell_magic("sql", "", statement(EXAMPLES[8])))


# -- the shell ----------------------------------------------------------------------------------------------------------


def test_the_shell_asks_about_its_last_statement(spark):
    said: list[str] = []
    shell = Shell(spark, said.append)
    shell.answer(":why")
    shell.answer(statement(EXAMPLES[2]) + ";")
    shell.answer(":why AT (day = 3)")
    shell.answer(":why AT (day = 3;")
    shell.answer(":why AT (dai = 3)")
    assert said[0] == "error: :why needs a statement, as in :why AT (day = 3) SELECT ...;"
    assert said[1].splitlines()[-1] == "Ask why nothing matches: :why"
    assert said[2] == EXAMPLES[2].text
    assert said[3] == "error: :why AT needs a condition in parentheses, as in AT (day = 3)"
    assert said[4].startswith("error: [SPARKCEP.WHY] at='dai = 3' is not a condition over the clause's input")


@pytest.mark.parametrize(
    ("text", "asked", "rest"),
    [
        ("SELECT 1;", {}, "SELECT 1"),
        ("AT (day = 3 AND s = ')') SELECT 1;", {"at": "day = 3 AND s = ')'"}, "SELECT 1"),
        (
            "at (a) match 2 expect `my up` which 1\nWITH x AS (SELECT 1) SELECT 2",
            {"at": "a", "match": 2, "expect": "my up", "which": "1"},
            "WITH x AS (SELECT 1) SELECT 2",
        ),
        ("MATCH 1;", {"match": 1}, ""),
        ("", {}, ""),
    ],
)
def test_questions_of_the_shell(text, asked, rest):
    assert question(text) == (asked, rest)


@pytest.mark.parametrize(
    "text", ["AT day = 3 SELECT 1;", "MATCH two SELECT 1;", "EXPECT", "AT (day = 3 SELECT 1", "WHICH (1) SELECT 1"]
)
def test_wrong_questions_of_the_shell(text):
    with pytest.raises(ToolError, match=":why .* needs"):
        question(text)


def test_where_a_question_of_the_shell_ends():
    assert finished(":why") and finished(":why AT (a = 1)\nSELECT 1;") and not finished(":why AT (a = 1)")


# -- the command line ---------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (["query.sql", "--table", "t={t}"], "Ask why nothing matches: sparkcep why query.sql --table t={t}"),
        (
            [
                "-e",
                "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a MEASURES 1 AS x PATTERN (A) DEFINE A AS a > 1)",
                "--table",
                "t={t}",
            ],
            "sparkcep why -e 'SELECT * FROM t ",
        ),
        (
            [
                "-e",
                "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a\nMEASURES 1 AS x PATTERN (A) DEFINE A AS a > 1)",
                "--table",
                "t={t}",
            ],
            "sparkcep why, with the arguments of sparkcep run",
        ),
        (["-e", "SELECT * FROM t WHERE a > 1", "--table", "t={t}"], None),
        (["-e", "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a MEASURES 1 AS x PATTERN (A))", "--table", "t={t}"], None),
        (["query.sql", "--table", "t={t}", "--format", "csv"], None),
    ],
)
def test_an_empty_result_on_a_terminal_ends_with_the_line_that_asks(spark, monkeypatch, tmp_path, words, last):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_with_spark", lambda options, work: work(spark))
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "query.sql").write_text(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a MEASURES 1 AS x PATTERN (A) DEFINE A AS a > 1)"
    )
    terminal = Terminal()
    terminal.buffer = SimpleNamespace(write=lambda data: None, flush=lambda: None)
    monkeypatch.setattr(sys, "stdout", terminal)
    words = [word.replace("{t}", str(tmp_path / "t.csv")) for word in words]
    assert cli.main(["run", *words]) == 0
    said = terminal.getvalue().splitlines()
    assert last.replace("{t}", str(tmp_path / "t.csv")) in said[-1] if last else not any("Ask why" in line for line in said)


def test_an_answer_on_a_terminal_is_in_colour(spark, monkeypatch):
    """Comparisons that alone would do are red, unless NO_COLOR is set."""
    monkeypatch.setattr(cli, "_with_spark", lambda options, work: work(spark))
    monkeypatch.setenv("TERM", "xterm")
    for value, red in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        assert cli.main(["why", "-e", statement(EXAMPLES[0]), "--at", "day = 1"]) == 0
        lines = terminal.getvalue().splitlines()
        assert [i for i, line in enumerate(lines) if line.startswith("\033[31;1m")] == ([4] if red else [])
        assert re.sub(r"\033\[[0-9;]*m", "", terminal.getvalue()).rstrip("\n") == EXAMPLES[0].text


def test_not_on_a_pipe(spark, monkeypatch, capsys):
    monkeypatch.setattr(cli, "_with_spark", lambda options, work: work(spark))
    assert cli.main(["run", "-e", statement(EXAMPLES[1])]) == 0
    assert not re.search("Ask why", capsys.readouterr().out)
