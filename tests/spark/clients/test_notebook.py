"""Notebooks in real kernels: the worked examples, the cells' options and errors, interrupts; one kernel classic, one over
Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from jupyter_client.manager import AsyncKernelManager  # noqa: E402
from jupyter_core.utils import run_sync  # noqa: E402
from nbformat import v4  # noqa: E402

from sparkcep.notebook.headless import NotebookError, load, output_text, run  # noqa: E402

pytestmark = pytest.mark.process

FOLDER = Path(__file__).resolve().parents[3] / "sql_examples" / "notebooks"
ENDLESS = "SELECT max(id % 7) AS n FROM range(1000000000000000)"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A running kernel whose first statement starts a local Spark."""
    manager = AsyncKernelManager()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC"}
    run_sync(manager.start_kernel)(env=environment, cwd=str(tmp_path_factory.mktemp("kernel")))
    yield manager
    run_sync(manager.shutdown_kernel)(now=True)


def executed(notebook, kernel, seen=None):
    """The code cells of ``notebook`` after it ran in ``kernel``."""
    run(notebook, FOLDER, "notebook", (seen if seen is not None else []).append, kernel)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def made(*sources: str):
    """A notebook of code cells; one that begins with ``#fails`` may fail."""
    cells = [v4.new_code_cell(s.removeprefix("#fails\n")) for s in sources]
    for cell, source in zip(cells, sources):
        if source.startswith("#fails"):
            cell.metadata["tags"] = ["raises-exception"]
    return v4.new_notebook(cells=cells)


def data(cell, kind: str) -> list:
    return [o.data[kind] for o in cell.outputs if o.output_type in ("execute_result", "display_data") and kind in o.data]


def failure(cell) -> tuple[str, list[str]]:
    """The error's name and the lines that are shown for it."""
    error = next(o for o in cell.outputs if o.output_type == "error")
    return error.ename, error.traceback


def gains(prices: list[Decimal], least: int) -> list[Decimal]:
    """The rises of all falls of ``least`` steps with as many steps up behind, by hand."""
    found, i = [], 0
    while i < len(prices):
        bottom = i
        while bottom + 1 < len(prices) and prices[bottom + 1] < prices[bottom]:
            bottom += 1
        top = bottom
        while top + 1 < len(prices) and prices[top + 1] > prices[top]:
            top += 1
        if bottom - i >= least and top - bottom >= least:
            found.append(prices[top] - prices[bottom])
            i = top + 1
        else:
            i += 1
    return found


def test_v_shapes(kernel):
    notebook = load(FOLDER / "v_shapes.ipynb")
    notebook.cells.append(v4.new_code_cell("print(*(f'{r.symbol} {r.price}' for r in spark.table('ticks').orderBy('symbol', 'day').collect()))"))
    cells = executed(notebook, kernel)
    shown = "\n".join(map(output_text, cells))
    words = output_text(cells[-1]).split()
    prices = {name: [Decimal(p) for n, p in zip(words[::2], words[1::2]) if n == name] for name in ("ACME", "OMEGA")}
    assert len(prices["ACME"]) == len(prices["OMEGA"]) == 90
    for name in prices:
        large = [gain for gain in gains(prices[name], 1) if gain >= 8]
        assert len(large) > 1 and re.search(rf"{name} +{len(large)}  {max(large)}\n", shown), (name, large, shown)
    (png,) = [p for cell in cells for p in data(cell, "image/png")]
    assert len(png) > 10_000
    assert f"price over day, {len(gains(prices['ACME'], 2))} matches" in shown and "RUN   DOWN{1,}" in shown
    assert [c["id"] for c in load(FOLDER / "v_shapes.ipynb").cells] == [f"cell-{i}" for i in range(len(load(FOLDER / "v_shapes.ipynb").cells))]


@pytest.mark.slow
def test_top_matches(kernel):
    shown = "\n".join(map(output_text, executed(load(FOLDER / "top_matches.ipynb"), kernel)))
    assert "S00        1    1   210   45.34" in shown and "shares: 20 that differ: 0" in shown


@pytest.mark.slow
def test_sessions(kernel):
    seen = []
    executed(load(FOLDER / "sessions.py"), kernel, seen)
    shown = "\n".join(seen)
    assert "4000     40  2026-03-02" in shown and "514              21       44    4000" in shown
    assert "sessions that differ: 0" in shown and "111          2.01" in shown


def test_committed_notebooks_have_no_outputs():
    for path in FOLDER.glob("*.ipynb"):
        assert all(not c.outputs and c.execution_count is None for c in load(path).cells if c.cell_type == "code"), path


VIEW = """%%sql
CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM VALUES ('a', 1, 12.5), ('a', 2, 17.0), ('a', 3, NULL) AS t(k, day, price);
SELECT *, named_struct('x', 1, 'y', array(1, NULL)) AS nested FROM t"""
PATTERN = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY day MEASURES LAST(day) AS d\n  PATTERN (UP{1,2}) DEFINE UP AS price > :low)"


def test_cells(kernel):
    cells = executed(
        made(
            "%load_ext sparkcep", VIEW, "%sql SELECT k, day FROM t --note", "%%sql --limit 2\nSELECT * FROM t", "low, few = 13, 1",
            f"%%sql found <<\n{PATTERN}", "type(found).__name__, found.collect()[0].d", f"%%sql --pandas --into p\n{PATTERN}", "p.shape",
            "%%sql\nCREATE OR REPLACE TEMP VIEW u AS SELECT 1 AS x", "_x = %sql SELECT * FROM u\n_x.frame.count(), _x.rows",
            "%%sql --explain\nSET x = 1; SELECT 1", "%%sql --explain\n" + PATTERN.replace(":low", "13"),
        ),
        kernel,
    )
    _, view, line, limited, _, lazy, collected, _, shape, done, held, unexplained, explained = cells
    (html,) = [h for h in data(view, "text/html") if "<table>" in h]
    assert "<th>nested</th>" in html and "{x: 1, y: [1, NULL]}" in html and ">NULL</i>" in html and "3 rows" in html
    assert "k  day\n-  ---\na    1" in output_text(line)
    assert "the first 2 rows; " in output_text(limited) and output_text(limited).count("a  ") == 2
    assert "<table>" not in str(lazy.outputs) and output_text(collected) == "('DataFrame', 2)"
    assert output_text(shape) == "(1, 1)"
    assert output_text(done).startswith("done, ")
    assert output_text(held).endswith("(1, [(1,)])")
    assert output_text(unexplained).count("no MATCH_RECOGNIZE clause") == 2
    assert "engine: exact" in output_text(explained)


def test_errors_are_messages_with_a_place(kernel):
    wrong = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY day MEASURES LAST(day) AS d\n  PATTERN (UP+) DEFINE {} AS {} > 1)"
    cells = executed(
        made(
            "%reload_ext sparkcep", VIEW, "#fails\n%%sql\n" + wrong.format("NO", "price"), "#fails\n%%sql\n" + wrong.format("UP", "prize"),
            "#fails\n%%sql\nSELECT 1;\nSELECT *\nFROM nowhere", "#fails\n%sql SELECT :unknown", "#fails\n%%sql --plot\nSELECT * FROM t",
            "#fails\n%%sql\nSELECT 1 / (day - 1) FROM t",
            "#fails\n%%sql\n" + wrong.format("UP", "price").replace("PATTERN (UP+)", "AFTER MATCH SKIP TO FIRST UP PATTERN (UP+)"),
        ),
        kernel,
    )
    shown = [failure(cell) for cell in cells[2:]]
    assert {name for name, _ in shown} == {"CellError"}
    texts = ["\n".join(lines) for _, lines in shown]
    assert not any("Traceback" in text or "File " in text for text in texts)
    for text, said, marked in (
        (texts[0], "SPARKCEP.UNKNOWN_VARIABLE", "NO AS"), (texts[1], "UNRESOLVED_COLUMN", "prize >"), (texts[2], "TABLE_OR_VIEW_NOT_FOUND", "nowhere"),
        (texts[5], "DIVIDE_BY_ZERO", "1 / (day"),
    ):
        line, mark = text.splitlines()[-2:]
        assert said in text and line[mark.index("^") :].startswith(marked), text
    assert "The notebook does not define unknown" in texts[3]
    assert "write ALL ROWS PER MATCH WITH UNMATCHED ROWS" in texts[4]
    assert texts[6].startswith("[SPARKCEP.SKIP_TO_FIRST_ROW]")


@pytest.mark.slow  # an interrupt also ends the stream below
def test_an_interrupt_cancels_the_job(kernel):
    notebook = made(
        "%reload_ext sparkcep", f"#fails\n%sql {ENDLESS}", "len(spark.sparkContext.statusTracker().getActiveJobsIds())", "%sql SELECT 1 AS one"
    )
    progress, ran = [], threading.Event()

    def interrupt():
        while not progress and not ran.is_set():
            progress.extend(t for t in data(notebook.cells[1], "text/plain") if "tasks" in t and not t.endswith(" 0 running"))
            time.sleep(0.1)
        run_sync(kernel.interrupt_kernel)()

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        _, endless, active, after = executed(notebook, kernel)
    finally:
        ran.set()
    thread.join()
    assert " tasks, " in progress[0]
    assert failure(endless) == ("Interrupted", ["interrupted: the Spark job was cancelled"])
    assert data(endless, "text/plain")[0].startswith("failed, ")  # nothing but the duration is left
    assert output_text(active) == "0"
    assert "one" in output_text(after)


STREAM = """%reload_ext sparkcep
%sql SELECT 1
import pathlib
pathlib.Path("falls").mkdir()
pathlib.Path("falls", "1.csv").write_text("".join(f"2026-01-01 09:00:{i:02},{20 - i % 5}\\n" for i in range(60)))
spark.readStream.schema("ts TIMESTAMP, price INT").csv("falls").withWatermark("ts", "1 second").createOrReplaceTempView("falls")
"""
FALLS = """SELECT * FROM falls MATCH_RECOGNIZE (ORDER BY ts MEASURES CLASSIFIER() AS variable, MATCH_NUMBER() AS match
  ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A FALL{2,}) WINDOW INTERVAL '10' SECONDS DEFINE FALL AS price < PREV(price))"""


def test_a_stream_is_shown_while_it_runs(kernel):
    """By a query that ends, by one that an interrupt ends, whose last rows stay, and as a picture."""
    one = "SELECT 1 AS one"
    notebook = made(
        STREAM, f"%%sql --once --limit 4\n{FALLS}", "_.total, _.frame.isStreaming", f"%%sql --limit 4\n{FALLS}", "len(spark.streams.active)", f"%%sql --plot --once\n{FALLS}",
        f"%%sql held <<\n{FALLS}", "held.isStreaming, len(spark.streams.active)",
        f"#fails\n%sql --once {one}", f"#fails\n%%sql --pandas\n{FALLS}", f"#fails\n%%sql --once\n{FALLS.replace('DEFINE', 'DEFIN')}",
    )
    seen, ran = [], threading.Event()

    def interrupt():
        while not seen and not ran.is_set():
            seen.extend(t for t in data(notebook.cells[3], "text/plain") if "the last 4 of " in t and "watermark 2026" in t)
            time.sleep(0.1)
        run_sync(kernel.interrupt_kernel)()

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        _, once, value, live, active, plot, _, held, no_stream, pandas, wrong = executed(notebook, kernel)
    finally:
        ran.set()
    thread.join()
    last = "(the last 4 of 55 rows (--limit shows more))"
    assert output_text(once).startswith("done: micro-batch ") and last in output_text(once) and output_text(value) == "(55, True)"
    assert ": micro-batch " in seen[0]
    assert output_text(live).startswith("stopped: micro-batch ") and last in output_text(live) and output_text(active) == "0"
    assert len(data(plot, "image/png")) == 1 and "price over ts, 11 matches" in output_text(plot)
    assert output_text(held) == "(True, 0)"
    assert [failure(cell)[0] for cell in (no_stream, pandas, wrong)] == ["CellError"] * 3
    assert "this one does not read a stream" in failure(no_stream)[1][0] and "a stream never ends" in failure(pandas)[1][0]
    assert "line 2" in "\n".join(failure(wrong)[1])


def test_a_failing_cell_is_named(kernel):
    with pytest.raises(NotebookError, match=r"notebook, cell 2: CellError: .*unknown option --no"):
        executed(made("%reload_ext sparkcep", "%sql --no SELECT 1"), kernel)


def test_each_cell_is_surrounded_by_a_line_of_progress(kernel):
    lines = []

    @contextmanager
    def waiting(about):
        lines.append(about)
        yield
        lines.append("end")

    notebook = v4.new_notebook(cells=[v4.new_code_cell("print(1)"), v4.new_markdown_cell("text"), v4.new_code_cell("1 / 0")])
    with pytest.raises(NotebookError, match="cell 2: ZeroDivisionError"):
        run(notebook, FOLDER, "notebook", lines.append, kernel, waiting)
    assert [line.strip() for line in lines] == ["starting the kernel", "end", "running cell 1 of 2", "end", "1", "running cell 2 of 2", "end"]


# what the Connect run adds to the example: an interrupt, from inside because the command's kernel is its own, and a failure
MORE = f'''
# COMMAND ----------

import os, signal, threading, time
from sparkcep.notebook.progress import Reporter
seen, show = [], Reporter.show
Reporter.show = lambda self, progress: (seen.append(progress), show(self, progress))
timer = threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
began = time.time()
try:
    get_ipython().run_line_magic("sparkcep", "{ENDLESS}")
except KeyboardInterrupt as stopped:
    print(type(stopped).__name__, time.time() - began < 30, "left running:", len(spark.interruptAll()), "running seen:", max(p.running for p in seen) > 0)
print(type(spark).__module__)

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT prize
# MAGIC FROM near
'''


@pytest.mark.slow
def test_the_command_runs_a_databricks_notebook_over_connect(tmp_path):
    pytest.importorskip("grpc")
    text = (FOLDER / "approximate.py").read_text(encoding="utf-8")
    (tmp_path / "near.py").write_text(text + MORE, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"} | {"SPARK_REMOTE": "local[2]", "TZ": "UTC"}
    done = subprocess.run(
        [sys.executable, "-m", "sparkcep", "notebook", tmp_path / "near.py", "--output", tmp_path / "out.ipynb"],
        capture_output=True, text=True, timeout=300, env=environment,
    )
    assert done.returncode == 2, done.stderr[-3000:]
    assert "exact: 37 batches, with one step missing: 57" in done.stdout
    assert "none          37" in done.stdout
    assert "Interrupted True left running: 0 running seen: True" in done.stdout and "pyspark.sql.connect.session" in done.stdout
    line = (text + MORE).splitlines().index("# MAGIC SELECT prize")
    assert f"near.py, cell 9 (line {line}): CellError: [UNRESOLVED_COLUMN" in done.stderr
    assert nbformat.read(tmp_path / "out.ipynb", as_version=4).cells[-1].outputs
