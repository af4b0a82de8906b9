"""SQL cells without Spark: their options, tables, parameters, pictures' columns; Databricks notebooks in source form."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import pytest

from sparkcep.cli.cli import main
from sparkcep.notebook import magic, picture
from sparkcep.notebook.cell import CellError, Options, bound, parameters, parse
from sparkcep.notebook.databricks import HEADER, IPYTHON, MARKDOWN, PYTHON, SKIPPED, SQL, SourceError, read, to_notebook
from sparkcep.notebook.jobs import Progress
from sparkcep.notebook.progress import Reporter
from sparkcep.notebook.table import Table, shown


@pytest.mark.parametrize(
    ("line", "cell", "expected"),
    [
        ("", "SELECT 1", Options("SELECT 1")),
        ("SELECT 1 -- one", None, Options("SELECT 1 -- one")),
        ("-- a comment", "SELECT 1", Options("-- a comment\nSELECT 1")),
        ("rises <<", "SELECT 1", Options("SELECT 1", into="rises")),
        ("rises << SELECT a << 1", None, Options("SELECT a << 1", into="rises")),
        ("--into rises --pandas", "SELECT 1", Options("SELECT 1", into="rises", pandas=True)),
        ("--limit=3 SELECT 'a --b' AS c", None, Options("SELECT 'a --b' AS c", limit=3)),
        ("--plot --x 'the day' --y `a b` --match m", "SELECT 1", Options("SELECT 1", plot=True, x="the day", y="a b", match="m")),
        ("--explain SELECT", "1", Options("SELECT\n1", explain=True)),
        ("--read trino", "SELECT 1", Options("SELECT 1", read="trino")),
        ("--once --limit 3", "SELECT 1", Options("SELECT 1", limit=3, once=True)),
        ("--seconds=20 --plot", "SELECT 1", Options("SELECT 1", plot=True, seconds=20)),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A{2,}))", None, Options("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A{2,}))")),
    ],
)
def test_options(line, cell, expected):
    assert parse(line, cell) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "the SQL is missing"),
        ("--limt 3 SELECT 1", "unknown option --limt; the options are --into"),
        ("--limit SELECT 1", "--limit takes a number"),
        ("--limit 0 SELECT 1", "above 0"),
        ("--into", "--into needs a value"),
        ("--into a.b SELECT 1", "a Python name"),
        ("--plot --pandas SELECT 1", "--plot draws"),
        ("--x day SELECT 1", "belong to --plot"),
        ("--seconds soon SELECT 1", "--seconds takes a number of seconds above 0, not soon"),
        ("--seconds 3 --once SELECT 1", "Write one of them"),
        ("x << --once SELECT 1", "the query does not run"),
        ("--seconds 2 --explain SELECT 1", "the query does not run"),
    ],
)
def test_wrong_options_say_what_is_right(line, said):
    with pytest.raises(CellError, match=said):
        parse(line, None)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM t WHERE a > :low AND b=:high AND c < :low", ["low", "high"]),
        ("SELECT a::int, b:c.d, t[0]:x, 'text :no', `q :no` -- :no", []),
        ("SELECT CAST(x AS STRUCT<a: INT, b: ARRAY<INT>>)", []),
        ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A??) DEFINE A AS x > :low)", ["low"]),
    ],
)
def test_parameters(statement, expected):
    assert parameters(statement) == expected
    assert bound(statement, {"low": 3}) == ({"low": 3} if "low" in expected else {})


ANOTHER = 'SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES A.x / 2 AS "half" PATTERN (A))'


def test_a_cell_in_the_sql_of_another_engine(capsys):
    shown = magic.Cells(SimpleNamespace(user_ns={})).sql("--read trino --explain", ANOTHER)
    assert "__l0 / 2 AS `half`" in shown
    notes = capsys.readouterr().out
    assert notes.startswith("note: line 1, column 54: / of DECIMALs") and "note: line 1, column 54: / of two integers" in notes


@pytest.mark.parametrize(("line", "sql", "said"), [("--read mysql", "SELECT 1", "--read must be one of trino"), ("--read trino", f"{ANOTHER} WHERE 1 = = 2", "line 1, column 95")])
def test_a_cell_that_cannot_be_read_says_so(line, sql, said):
    with pytest.raises(CellError, match=said):
        magic.Cells(SimpleNamespace(user_ns={})).sql(f"{line} --explain", sql)


def test_a_value_moves_no_cursor():
    table = Table(["a\x1b[31m", "b"], [("\x1b]0;title\x07\r", "abc\u202edef\n\t")], more=False)
    for text in (repr(table), table._repr_html_()):
        assert not set(text) & set("\x1b\x07\r\u202e")
    assert "]0;title" in repr(table) and "abc\N{REPLACEMENT CHARACTER}def\\n" in repr(table)


def test_a_table_as_text_and_html():
    table = Table(["name", "n"], [("a<b", 1), (None, Decimal("12.50"))], more=False)
    assert repr(table) == "name  n\n----  -----\na<b       1\nNULL  12.50\n(2 rows)"
    text = table._repr_html_()
    assert "<td style=\"text-align: left\">a&lt;b</td>" in text and ">NULL</i></td>" in text and "<small>2 rows</small>" in text
    assert "the first 2 rows; --limit" in repr(Table(["n"], [(1,), (2,)], more=True))
    assert repr(Table(["n"], [], more=False)).endswith("(0 rows)")


def test_values_are_readable():
    assert shown([1, None, {"k": "v"}]) == "[1, NULL, {k -> v}]"
    assert shown(b"\x0a\xff") == "X'0AFF'" and shown(True) == "true" and shown(date(2026, 3, 2)) == "2026-03-02"


COLUMNS = [("symbol", picture.OTHER), ("day", picture.TIME), ("variable", picture.OTHER), ("match", picture.NUMBER), ("price", picture.NUMBER)]


def test_the_columns_of_a_picture():
    assert picture.choose(COLUMNS, Options("")) == picture.Axes("day", "price", "variable", "match")
    swapped = picture.choose(COLUMNS, Options("", x="PRICE", y="day"))
    assert (swapped.x, swapped.y) == ("price", "day")
    assert picture.choose(COLUMNS, Options("", y="price", match="Match")).x == "day"


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (COLUMNS[:2], Options(""), "ALL ROWS PER MATCH WITH UNMATCHED ROWS with MEASURES CLASSIFIER\\(\\) AS variable"),
        (COLUMNS[:4], Options(""), "name them with --x and --y"),
        (COLUMNS, Options("", x="dy"), "--x dy: unknown column; the columns are symbol, day"),
    ],
)
def test_a_picture_says_what_it_lacks(columns, options, said):
    with pytest.raises(CellError, match=said):
        picture.choose(columns, options)


class Context:
    def __init__(self, fragment, start):
        self.fragment, self.startIndex, self.contextType = lambda: fragment, lambda: start, lambda: "SQL"


class SparkError(Exception):
    """As pyspark's errors answer."""

    def __init__(self, message, *contexts, parameters=None):
        super().__init__(message)
        self.getMessage, self.getQueryContext, self.getMessageParameters = lambda: message, lambda: contexts, lambda: parameters
        self.getCondition = lambda: "X"


def test_spark_errors_point_into_the_users_statement():
    from sparkcep.spark.errors.exceptions import shown as spark_shown

    clause = "SELECT *\nFROM t MATCH_RECOGNIZE (ORDER BY d MEASURES 1 AS a PATTERN (A) DEFINE A AS prize > 1)"
    text = spark_shown(SparkError("[UNRESOLVED] no `prize`. SQLSTATE: 42703; line 1 pos 99;\n'Project [prize]\n+- x", Context("prize", 99)), clause)
    assert text.startswith("[UNRESOLVED] no `prize`. SQLSTATE: 42703; line 2, column 76\n\n== SQL (line 2, position 76) ==")
    line, mark = text.splitlines()[-2:]
    assert line[mark.index("^") :].startswith("prize") and mark.count("^") == 5
    twice = spark_shown(SparkError("[X] no", Context("prize", 99)), clause.replace("MEASURES 1", "MEASURES prize"))
    assert twice == "[X] no"  # Spark's offset is that of the rewritten text
    plain = spark_shown(SparkError("[X] near 'y'. (line 1, pos 11)", parameters={"error": "'y'"}), "SELECT y x y")
    assert plain.splitlines()[-1] == " " * 11 + "^"


def test_a_terminal_keeps_the_duration_only(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    reporter = Reporter(object())
    reporter.show(Progress(1, 4, 2))
    reporter.close("done")
    line, blank, end = terminal.getvalue().split("\r")[1:]
    assert "1 of 4 tasks, 2 running" in line and not blank.strip() and len(blank) == len(line) and end == ""
    assert capsys.readouterr().out == "done, 0.0 s\n"


def test_a_terminal_adds_the_rows_of_a_stream(monkeypatch, capsys):
    """It prints rows once, those that came since it printed last."""
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))
    reporter = Reporter(object())
    both = Table(["n"], [(1,), (2,)], more=False)
    reporter.live("micro-batch 0", both, both)
    reporter.live("micro-batch 1", both, None)
    reporter.close("stopped")
    assert capsys.readouterr().out == "n\n-\n1\n2\n(2 rows)\nstopped, 0.0 s\n"


def test_a_notebook_shows_a_stream_in_one_place(monkeypatch):
    """A line with a table or a picture below it, then the duration alone."""
    display = pytest.importorskip("IPython.display")
    shown = []
    handle = SimpleNamespace(update=shown.append)
    monkeypatch.setattr(display, "display", lambda value, display_id: shown.append(value) or handle)
    reporter = Reporter(SimpleNamespace(kernel=None))
    reporter.live("<1>", Table(["a<b"], [(1,)], more=False), None)
    figure = SimpleNamespace(savefig=lambda out, format, dpi: out.write(b"\x89PNG"))
    reporter.live("2", picture.Picture(figure, "price"), None)
    reporter.close("stopped")
    table, drawn, end = [value._repr_html_() for value in shown]
    assert '0.0 s: &lt;1&gt;</small><div class="tex2jax_ignore mathjax_ignore"><table>' in table and "<th>a&lt;b</th>" in table and "a<b\n---\n  1" in repr(shown[0])
    assert '<img src="data:image/png;base64,iVBORw==">' in drawn and "<picture of price" in repr(shown[1])
    assert end == "<small>stopped, 0.0 s</small>"


def test_settings_where_the_platform_has_a_list_of_its_own(monkeypatch):
    errors = pytest.importorskip("pyspark.errors")
    from sparkcep.spark.configured import settings_of

    class Session:
        """As serverless compute answers."""

        __module__ = "pyspark.sql.connect.session"

        def __init__(self, condition):
            self.conf, self.condition = self, condition

        @property
        def getAll(self):
            return self.get("all", None)

        def get(self, key, default):
            if key.startswith("spark.sql."):
                return "true"
            raise errors.AnalysisException(f"[{self.condition}] {key}", errorClass=self.condition)

    assert settings_of(Session("CONFIG_NOT_AVAILABLE")).slices is True
    monkeypatch.setenv("SPARKCEP_SLICES", "always")
    assert settings_of(Session("CONFIG_NOT_AVAILABLE")).slices == "always"
    with pytest.raises(errors.AnalysisException):
        settings_of(Session("SOMETHING_ELSE"))


# -- the magics' names


@pytest.fixture
def shell():
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    made = interactive.InteractiveShell()
    yield made
    magic.unload_ipython_extension(made)


def test_loading_and_unloading(shell, monkeypatch):
    """Each shell gets its own magics back, whatever was loaded into another."""
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    type(shell)().extension_manager.load_extension("sparkcep")

    def other(line, cell=None):
        return "other"

    shell.register_magic_function(other, "line_cell", "sql")
    shell.extension_manager.load_extension("sparkcep")
    assert shell.find_cell_magic("sql") == shell.find_cell_magic("sparkcep") and shell.find_line_magic("sql") is not other
    shell.extension_manager.unload_extension("sparkcep")
    assert shell.run_cell_magic("sql", "", "SELECT 1") == "other" and shell.find_cell_magic("sparkcep") is None


def test_databricks_keeps_its_sql(shell, monkeypatch):
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.0")
    shell.extension_manager.load_extension("sparkcep")
    assert shell.find_cell_magic("sql") is None and shell.find_cell_magic("sparkcep") is not None


def test_explain_starts_no_spark():
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('%load_ext sparkcep')\n"
        "shell.run_cell('%%sql --explain\\nSELECT * FROM t MATCH_RECOGNIZE (MEASURES count(*) AS n PATTERN (A{2,}) DEFINE A AS x > 1)')\n"
        "done = shell.run_cell('%sql SELECT 1')\n"
        "assert not done.success"
    )
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": os.devnull, "IPYTHONDIR": os.devnull + "/none"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert "RUN   A{2,}" in done.stdout
    assert "Spark 4 needs Java 17" in done.stdout and "Traceback" not in done.stdout + done.stderr


# -- Databricks notebooks

SOURCE = f"""{HEADER}
# MAGIC %md
# MAGIC # Title

# COMMAND ----------

# DBTITLE 1,First
x = 1
# a comment

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT 1;
# MAGIC
# MAGIC SELECT 2

# COMMAND ----------

# MAGIC %pip install sparkcep

# COMMAND ----------

# MAGIC %%time
# MAGIC y = 2

# COMMAND ----------

# MAGIC %python
# MAGIC z = 3
# COMMAND ----------
"""


def test_a_databricks_notebook_is_read():
    assert [(c.language, c.source, c.line, c.title) for c in read(SOURCE)] == [
        (MARKDOWN, "# Title", 2, ""),
        (PYTHON, "x = 1\n# a comment", 8, "First"),
        (SQL, "SELECT 1;\n\nSELECT 2", 13, ""),
        (SKIPPED, "%pip install sparkcep", 20, ""),
        (IPYTHON, "%%time\ny = 2", 24, ""),
        (PYTHON, "z = 3", 29, ""),
    ]
    assert read(SOURCE.replace("\n", "\r\n")) == read(SOURCE)


def test_it_becomes_a_jupyter_notebook():
    nbformat = pytest.importorskip("nbformat")
    made = to_notebook(SOURCE)
    nbformat.validate(made)
    assert [c.source for c in made.cells[1:]] == [
        "# Title", "#### First", "x = 1\n# a comment", "%%sparkcep\nSELECT 1;\n\nSELECT 2",
        "# left out: %pip install sparkcep", "%%time\ny = 2", "z = 3",
    ]
    assert "prepare" in made.cells[0].source and made.cells[4].metadata["line"] == 13


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [("x = 1\n", 1, "begins with the line"), (f"{HEADER}\nx = 1\n\n# COMMAND ----------\n\n# MAGIC %scala\n# MAGIC val x = 1\n", 6, "%scala runs in Databricks only")],
)
def test_what_cannot_be_read_is_said(text, line, said):
    with pytest.raises(SourceError, match=said) as caught:
        read(text)
    assert caught.value.line == line


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    (tmp_path / "plain.py").write_text("x = 1\n")
    (tmp_path / "bad.ipynb").write_text("{}")
    for arguments, said in (
        ([str(tmp_path / "no.py")], "cannot be read"), ([str(tmp_path / "plain.py")], "line 1: a Databricks notebook in source form begins"),
        ([str(tmp_path / "bad.ipynb")], "is not a Jupyter notebook"), ([str(tmp_path / "plain.py"), "--output", "x.html"], "must end in .ipynb"),
    ):
        assert main(["notebook", *arguments]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%%sql --limit 3\nSELECT * FROM ticks MATCH_RECOGNIZE (\n  AFT!\n)", ["AFTER MATCH SKIP"]),
        ("x = 1\ny = %sql SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A B) DEFINE !", ["A", "B"]),
        ("%%sparkcep\nSELECT * FROM t MATCH_RECOGNIZE (ONE!", ["ONE ROW PER MATCH"]),
        ("%%time\nSELECT * FROM t MATCH_RECOGNIZE (ONE!", []),
        ("import o!", []),
        ("%%s!", []),
        ("!", []),
    ],
)
def test_completion_in_cells(cell, expected, monkeypatch):
    from sparkcep.notebook import completion

    monkeypatch.setattr(completion, "session_of", lambda namespace, start: None)
    propose = completion.matcher(SimpleNamespace(user_ns={}), ("sparkcep", "sql"))
    before = cell[: cell.index("!")].split("\n")
    found = propose(SimpleNamespace(full_text=cell.replace("!", "", 1), cursor_line=len(before) - 1, cursor_position=len(before[-1])))
    assert [c.text for c in found["completions"]] == expected
    if expected:
        assert before[-1].endswith(found["matched_fragment"]) and found["suppress"]
