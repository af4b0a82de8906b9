"""The real spark-sql shell with the clause: one interactive shell for most, two more for what a later shell sees."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from sparkcep.clause.tokens import split_statements  # noqa: E402
from sparkcep.spark.session.jar import find_spark_home  # noqa: E402
from tests.docs.test_sql_examples import FILES  # noqa: E402
from tests.selection import part  # noqa: E402
from tests.spark.programs import SMALL, SPARKCEP, Shell, as_hive_writes, environment, helpers, needs_javac, wait_until_gone  # noqa: E402

pytestmark = [needs_javac, pytest.mark.process]

MATCH = "MATCH_RECOGNIZE (PARTITION BY sym ORDER BY ts MEASURES A.price AS p PATTERN (A) DEFINE A AS price > 10)"
BAD = MATCH.replace("DEFINE A", "DEFINE X")
BY_HAND = "match_recognize(TABLE(quotes), 'PARTITION BY sym ORDER BY ts MEASURES A.price AS p PATTERN (A) DEFINE A AS price > 10')"
FOUND = "sym\tp\na\t15\nb\t25\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the shells run, and so where the metastore and the tables lie."""
    return tmp_path_factory.mktemp("shell")


@pytest.fixture(scope="module")
def shell(folder):
    opened = Shell(folder, "--define", f"clause={MATCH}")
    opened.run(
        "CREATE TABLE quotes USING parquet AS SELECT * FROM VALUES ('a', 1, 5), ('a', 2, 15), ('b', 1, 25) AS t(sym, ts, price)"
    )
    yield opened
    opened.kill()


def test_nothing_is_started_before_it_is_needed(shell):
    assert shell.run("SELECT 'plain' AS word") == "word\nplain\n"
    assert helpers(shell.process.pid) == []


def test_clause_and_table_function(shell):
    assert shell.run(f"SELECT * FROM quotes {MATCH} ORDER BY sym") == FOUND
    assert shell.run(f"SELECT * FROM {BY_HAND} ORDER BY sym") == FOUND
    assert "match_recognize" in shell.run("SHOW FUNCTIONS LIKE 'match_rec*'")


@pytest.mark.parametrize("path", part(2, 48, FILES), ids=[p.stem for p in FILES])
def test_example(shell, path):
    out = ""
    for statement in split_statements(path.read_text(encoding="utf-8")):
        out = shell.run(statement)
    # kernels are not always compiled when the shell needs them
    out = "".join(line for line in out.splitlines(keepends=True) if not line.startswith(("sparkcep compiles the kernels", "sparkcep: ")))
    assert out == as_hive_writes(path.with_suffix(".expected").read_text(encoding="utf-8"))


def test_functions_over_graphs(shell):
    graph = MATCH.replace("A.price AS p PATTERN", "MATCH_GRAPH() AS g EVENT SELECTION SKIP TILL ANY MATCH PATTERN")
    counted = f"SELECT sym, count_matches(g) AS n, size(sample_matches(g, 5, 7)) AS s FROM quotes {graph} ORDER BY sym"
    assert shell.run(counted) == "sym\tn\ts\na\t1\t5\nb\t1\t5\n"


def test_statements_inside_statements(shell):
    inner = f"SELECT ? AS k, m.* FROM quotes {MATCH.replace('10', '?')} AS m"
    assert shell.run(f"EXECUTE IMMEDIATE '{inner}' USING 1, 20") == "k\tsym\tp\n1\tb\t25\n"
    assert shell.run(f"WITH m AS (SELECT * FROM quotes {MATCH}) SELECT max(p) AS high FROM m") == "high\n25\n"


def test_variables_of_the_shell(shell):
    shell.run("SET low=20")
    assert shell.run(f"SELECT * FROM quotes {MATCH.replace('10', '${low}')}") == "sym\tp\nb\t25\n"
    assert shell.run("SELECT * FROM quotes ${clause} ORDER BY sym") == FOUND


def test_settings_reach_the_rewriter(shell):
    shell.run("SET sparkcep.maxSteps=many")
    assert "[SPARKCEP.SETTING] sparkcep.maxSteps must be a number" in shell.run(f"SELECT * FROM quotes {MATCH}")
    shell.run("RESET sparkcep.maxSteps")


def test_errors_have_their_place(shell):
    lines = shell.run(f"SELECT *\nFROM quotes {BAD}").splitlines()
    column = f"FROM quotes {BAD}".index("DEFINE X") + 8
    assert lines[0].startswith("[SPARKCEP.UNKNOWN_VARIABLE] ") and lines[0].endswith("SQLSTATE: 42K0E")
    assert f"== SQL (line 2, position {column}) ==" in lines
    assert lines[-1] == " " * (column - 1) + "^"


def test_errors_of_the_analysis_are_told_as_ours(shell):
    wrong = MATCH.replace("PATTERN (A)", "PATTERN (A B)").replace("price > 10", "price > 10, B AS B.price > sum(A.sym)")
    out = shell.run(f"SELECT * FROM quotes {wrong}")
    column = f"SELECT * FROM quotes {wrong}".index("B.price > sum") + 1
    assert out == (
        "[SPARKCEP.DATATYPE_MISMATCH] SUM needs a number, not string "
        f"(line 1, column {column}: 'B.price > sum(A.sym)') SQLSTATE: 42K0E\n\n"
        f"== SQL (line 1, position {column}) ==\nSELECT * FROM quotes {wrong}\n{' ' * (column - 1)}{'^' * len('B.price > sum(A.sym)')}\n"
    )
    assert "did you mean MATCH_RECOGNIZE?" in shell.run(f"SELECT * FROM quotes {MATCH.replace('NIZE', 'NISE')}")


def test_errors_of_a_running_query(shell):
    text = MATCH.replace("PATTERN (A)", "AFTER MATCH SKIP TO FIRST A PATTERN (A)")
    assert "[SPARKCEP." in shell.run(f"SELECT * FROM quotes {text}")


def test_sparks_errors_stay_sparks(shell):
    assert shell.run("SELECT no_such_column FROM quotes").startswith("[UNRESOLVED_COLUMN")
    assert shell.run(f"SELECT * FROM quotes {MATCH} WHERE p >").startswith("[PARSE_SYNTAX_ERROR]")
    assert shell.run(f"SELECT * FROM no_such_table {MATCH}").startswith("[TABLE_OR_VIEW_NOT_FOUND]")


@pytest.mark.parametrize(
    ("right", "wrong", "condition", "fragment"),
    [
        ("A.price AS p", "LAST(prise) AS p", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "prise"),
        ("price > 10", "price", "SPARKCEP.DATATYPE_MISMATCH", "price"),
        ("BY sym ORDER", "BY sym, parse_json('1') ORDER", "SPARKCEP.DATATYPE_MISMATCH", "parse_json('1')"),  # of a plan that is resolved
        ("price > 10)", "price > 10) WHERE p > nope", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "nope"),
        ("price > 10", "rond(price) > 10", "UNRESOLVED_ROUTINE", "rond(price)"),  # raised by a rule
        ("price > 10)", "price > 10) WHERE 1 1", "PARSE_SYNTAX_ERROR", "1"),
        ("price > 10", "price / (price - price) > 1", "DIVIDE_BY_ZERO", "price / (price - price)"),  # when it runs
    ],
)
def test_sparks_errors_have_their_place(shell, right, wrong, condition, fragment):
    statement = f"SELECT * FROM quotes {MATCH.replace(right, wrong)}"
    out = shell.run(statement)
    assert f"[{condition}]" in out and "__" not in out and '{"variables"' not in out
    line, mark = out.rstrip().split("\n")[-2:]
    column = statement.rindex(fragment) + 1
    assert f"== SQL (line 1, position {column}) ==" in out
    if condition != "DIVIDE_BY_ZERO":  # Spark shows a part of a long line
        assert line == statement and mark == " " * (column - 1) + "^" * len(fragment)


@pytest.mark.parametrize(
    ("wrong", "marked"),
    [
        ("price > 10 AND sym <> 'secret-1' AND CLASSIFIER(X) = 'A'", "X"),  # found by the rewriter
        ("price > 10 AND sym <> 'secret-2' AND prise > PREV(prise)", "prise"),  # by Spark
        ("array(price) > array(A.price) AND sym <> 'secret-3' AND PREV(DATE'2024-01-01') > price", None),
    ],
)
def test_errors_are_redacted(shell, wrong, marked):
    shell.run("SET spark.sql.redaction.string.regex=secret-[0-9]")
    said = shell.run(f"SELECT * FROM quotes {MATCH.replace('price > 10', wrong)}")
    shell.run("RESET spark.sql.redaction.string.regex")
    assert "secret-" not in said and "*********(redacted)" in said
    *_, line, mark = said.rstrip().split("\n")
    assert marked is None or line[mark.index("^") : len(mark)] == marked


def test_what_a_view_refers_to(shell):
    """The statement is analysed ahead of Spark's rules, in the context in which they note a view's tables and functions."""
    shell.run("CREATE TEMPORARY VIEW passing AS SELECT * FROM quotes")
    assert "[INVALID_TEMP_OBJ_REFERENCE]" in shell.run(f"CREATE VIEW lasting AS SELECT * FROM passing {MATCH}")
    shell.run(f"CREATE VIEW lasting AS SELECT * FROM quotes {MATCH}")
    shell.run(f"CREATE VIEW over AS SELECT m.p, l.p AS q FROM lasting l JOIN quotes {MATCH} AS m ON m.sym = l.sym")
    shell.run("CREATE DATABASE other")
    shell.run("USE other")
    shell.run("CREATE TABLE quotes USING parquet AS SELECT 'z' AS sym, 1 AS ts, 99 AS price")
    assert shell.run("SELECT * FROM default.lasting ORDER BY sym") == FOUND
    assert shell.run(f"SELECT v.p, o.p AS own FROM default.over v CROSS JOIN quotes {MATCH} AS o ORDER BY 1") == "p\town\n15\t99\n25\t99\n"
    assert "[EXPECT_TABLE_NOT_VIEW" in shell.run(f"INSERT INTO default.lasting SELECT * FROM quotes {MATCH}")
    shell.run(f"CREATE TABLE kept USING parquet AS SELECT * FROM quotes {MATCH}")
    shell.run(f"INSERT INTO kept SELECT * FROM default.quotes {MATCH}")
    assert shell.run("SELECT * FROM kept ORDER BY sym") == FOUND + "z\t99\n"
    shell.run("USE default")


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM quotes MATCH_RECOGNIZE (ORDER BY ts PATTERN ({'(' * 3000}A{')' * 3000}) DEFINE A AS true)",
        "SELECT * FROM quotes MATCH_RECOGNIZE (",
        "SELECT * FROM quotes MATCH_RECOGNIZE (ORDER BY ts PATTERN (\x01\u00e4) DEFINE A AS true)",
        "SELECT * FROM match_recognize(TABLE(quotes), 'PATTERN')",
        "SELECT * FROM match_recognize(1)",
    ],
)
def test_bad_input_leaves_the_helper_alone(shell, text):
    before = shell.helper
    assert "SPARKCEP." in shell.run(text)
    assert shell.run(f"SELECT * FROM quotes {MATCH} ORDER BY sym") == FOUND
    assert shell.helper == before


def test_the_helper_leaves_ctrl_c_to_the_shell(shell):
    before = shell.helper
    os.kill(before, signal.SIGINT)
    assert shell.run(f"SELECT * FROM quotes {MATCH} ORDER BY sym") == FOUND
    assert shell.helper == before


def test_a_helper_that_was_killed_is_replaced(shell):
    before = shell.helper
    os.kill(before, signal.SIGKILL)
    assert wait_until_gone(before)
    assert shell.run(f"SELECT * FROM quotes {MATCH} ORDER BY sym") == FOUND
    assert shell.helper != before


def resident(pid: int) -> int:
    return int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_two_hundred_statements_leave_nothing_behind(shell):
    statement = f"EXPLAIN SELECT * FROM quotes {MATCH}"
    shell.run(statement)
    helper, before = shell.helper, resident(shell.helper)
    workers = children(shell.process.pid)
    text = ";\n".join([statement, f"EXPLAIN SELECT * FROM quotes {BAD}"] * 100)
    out = shell.run(text)
    assert out.count("== Physical Plan ==") == 100 and out.count("SPARKCEP.UNKNOWN_VARIABLE") == 100
    assert shell.helper == helper
    assert resident(helper) < before + 8_000  # KB
    assert children(shell.process.pid) == workers


def children(of: int) -> int:
    listed = subprocess.run(["ps", "-A", "-o", "ppid="], capture_output=True, text=True, check=True).stdout
    return listed.split().count(str(of))


def test_a_killed_shell_takes_its_helper_along(shell):
    shell.run(f"CREATE VIEW rises AS SELECT * FROM quotes {MATCH}")
    shell.run(f"CREATE VIEW by_hand AS SELECT * FROM {BY_HAND}")
    helper = shell.helper
    shell.kill()
    assert wait_until_gone(helper)


@pytest.mark.slow  # further starts of the same road
class TestALaterShell:
    """Reads the views that the first one made. In order: the one before must have let go of the metastore."""

    def test_configured_by_hand(self, folder, tmp_path):
        """Spark's own script, what `sparkcep jar` prints in spark-defaults.conf, statements in a file."""
        settings = subprocess.run([*SPARKCEP, "jar"], capture_output=True, text=True, check=True, cwd=folder, env=environment())
        (tmp_path / "spark-defaults.conf").write_text(settings.stdout)
        file = tmp_path / "statements.sql"
        file.write_text(f"SELECT * FROM rises ORDER BY sym; -- a view\nSELECT p FROM quotes {MATCH} WHERE sym = 'a';\n")
        done = subprocess.run(
            [Path(find_spark_home(), "bin", "spark-sql"), *SMALL, "-f", file],
            capture_output=True, text=True, cwd=folder, env=environment(SPARK_CONF_DIR=str(tmp_path)), timeout=300,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "a\t15\nb\t25\n15\n"), done.stderr

    def test_one_statement(self, folder):
        done = subprocess.run(
            [*SPARKCEP, "spark-sql", *SMALL, "-e", f"SELECT * FROM by_hand ORDER BY sym; SELECT * FROM quotes {BAD}"],
            capture_output=True, text=True, cwd=folder, env=environment(), timeout=300,
        )  # fmt: skip
        assert done.stdout == "a\t15\nb\t25\n", done.stderr
        assert done.returncode != 0 and "[SPARKCEP.UNKNOWN_VARIABLE]" in done.stderr
