"""The dialogue of ``sparkcep shell``: statements, commands, completion, errors, over the tests' session."""

from __future__ import annotations

import io

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from sparkcep.cli.cli import main
from sparkcep.cli.shell import Proposals, Shell, finished

CLAUSE = "SELECT * FROM own_shell MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(v) AS a, LAST(v) AS b PATTERN (A B+) DEFINE B AS v < PREV(v));"


@pytest.fixture
def said(spark):
    """Gives what the shell says to lines that are typed."""
    spark.sql("CREATE OR REPLACE TEMP VIEW own_shell AS SELECT * FROM VALUES (1, 5), (2, 4), (3, 9), (4, 1) AS r(t, v)")

    def dialogue(*lines: str) -> list[str]:
        out: list[str] = []
        with create_pipe_input() as keys:
            keys.send_text("".join(line + "\r" for line in lines) + "\x04")
            Shell(spark, out.append).run(input=keys, output=DummyOutput())
        return out

    return dialogue


def test_a_dialogue(said, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    rows, target = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_text("day,price\n2024-01-01,3\n2024-01-02,4\n")
    out = said(CLAUSE, "SELECT", "1 AS one;", f":table days={rows}", f":save {target}", f":explain {CLAUSE}", ":read trino", "SELECT strpos('ab', 'b') AS n;")
    assert out[0].startswith("sparkcep shell") and out[1].splitlines() == ["a  b", "-  -", "5  4", "9  1", "(2 rows)"]
    assert out[2].split()[2] == "1" and out[3] == "days: day, price" and out[4] == f"written to {target}"
    assert target.read_text() == "one\n1\n" and out[5].startswith("== Clause 1 ==") and out[-1].split()[2] == "2"
    history = tmp_path / "sparkcep" / "history"
    assert CLAUSE in history.read_text() and history.stat().st_mode & 0o077 == 0


def test_commands_and_errors_are_answered(said):
    text = "\n".join(said(":help", ":nothing", ":limit 0", ":limit 1", CLAUSE, CLAUSE.replace("LAST(v)", "LAST(w)"), ":explain SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A);", ":save x.txt", ":fmt SELECT 1;"))
    assert "Tab completes" in text and "unknown command :nothing" in text and "a number of rows above 0, not 0" in text
    assert "the first 1 rows; :limit shows more" in text
    assert "`w` cannot be resolved" in text and "^" in text and "Traceback" not in text
    assert "SPARKCEP.SYNTAX" in text and "must end in .parquet, .csv" in text and text.endswith("SELECT 1;")


def test_errors_of_commands_are_marked_in_their_statements(spark):
    out: list[str] = []
    shell, wrong = Shell(spark, out.append), CLAUSE.replace("DEFINE B", "DEFINE C")
    for command in (f":read spark {wrong}", f":explain {wrong}", f":fmt {CLAUSE.replace(' PREV(v)', '')}"):
        shell.answer(command)
    marked = [line[mark.index("^") : mark.rindex("^") + 1] for *_, line, mark in (text.split("\n") for text in out)]
    assert marked == ["C", "C", "<"] and not any(text.split("\n")[-2].startswith(":") for text in out)


def test_words_of_other_shells_are_answered(said):
    for asked in ("\\?", "help", "HELP;", ".help", "?"):
        assert "Tab completes" in said(asked)[1]
    assert "unknown command \\dt; the commands are :help" in said("\\dt")[1] and "unknown command .tables" in said(".tables")[1]
    for left in ("\\q", ".quit", "exit;", ":exit"):
        assert said(left, "SELECT 1;")[1:] == []


def test_completion_asks_spark_for_tables_and_columns(said, spark):
    said("SELECT 1;")
    proposals = Proposals(spark)

    def proposed(text: str) -> list[tuple[str, int]]:
        return [(c.text, c.start_position) for c in proposals.get_completions(Document(text), CompleteEvent())]

    assert proposed("SELECT * FROM own_s") == [("own_shell", -5)]
    assert proposed("SELECT * FROM own_shell MATCH_RECOGNIZE (MEASURES A.")[:2] == [("t", 0), ("v", 0)]
    clause = "MATCH_RECOGNIZE (ORDER BY t MEASURES LAST(v) AS highest PATTERN (A+) DEFINE A AS v > 3)"
    assert proposed(f"SELECT * FROM own_shell {clause} WHERE hi") == [("highest", -2), ("histogram_numeric(", -2)]
    assert proposed("SELECT * FROM no_such_table MATCH_RECOGNIZE (MEASURES A.") == []


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';", False), ("SELECT 1; -- x", False), ("SELECT 1;\nSELECT 2", False), (";", True), ("quit", True),
        ("\\?", True), ("help", True), ("help;", True), ("\\q", True), (".tables", True), ("SELECT .5", False),
        (":limit 3", True), (":explain SELECT 1", False), (":explain SELECT 1;", True), ("BEGIN SELECT 1;", False), ("BEGIN SELECT 1; END;", True), ("SELECT begin FROM t;", True), ("/* ;", False),
    ],
)  # fmt: skip
def test_where_a_statement_ends(text, whole):
    assert finished(text) is whole


def test_without_a_terminal_it_says_what_would_work(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(CLAUSE))
    assert main(["shell"]) == 2
    assert "sparkcep run -" in capsys.readouterr().err
