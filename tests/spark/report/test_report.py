"""The report of a query, in classic sessions; read strictly, and shown by a browser where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparkcep
from sparkcep.clause.tokens import split_statements
from sparkcep.cli.cli import main
from sparkcep.spark.report.query_report import _query
from tests.support.pages import Parsed, check, text_of

pytestmark = pytest.mark.codegen  # it is of Spark's plans

ROOT = Path(__file__).resolve().parents[3]
ONE_ROW = """WITH named AS (SELECT * FROM ticks)
SELECT * FROM {table} MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES FIRST(day) AS a, LAST(UP.day) AS z, '<b>' AS mark
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
) {rest};"""
ALL_ROWS = """SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS what
  ALL ROWS PER MATCH WITH UNMATCHED ROWS
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""


@pytest.fixture(scope="module")
def session(spark):
    spark.sql(split_statements((ROOT / "sql_examples" / "v_shape.sql").read_text(encoding="utf-8"))[0])
    return spark


@pytest.fixture(scope="module")
def pages(session, tmp_path_factory):
    """The report of a query of each kind, as files."""
    folder = tmp_path_factory.mktemp("reports")
    queries = {"one": ONE_ROW.format(table="ticks", rest="ORDER BY symbol"), "all": ALL_ROWS}
    for name, sql in queries.items():
        assert sparkcep.report(session, sql, folder / f"{name}.html") == (folder / f"{name}.html").read_text(encoding="utf-8")
    return folder


def tables(page: Parsed) -> list[list[str]]:
    """The texts of the cells of each table, in order."""
    out: list[list[str]] = []
    before = ""
    for path, text in page.texts:
        kind = path[-1] if path else ""
        if kind not in ("th", "td"):
            continue
        if kind == "th" and before != "th":
            out.append([])
        out[-1].append(text)
        before = kind
    return out


@pytest.mark.further
def test_a_report_of_one_row_per_match(pages, session):
    page = check((pages / "one.html").read_text(encoding="utf-8"))
    text = text_of(page)
    assert page.count("svg") == 1 and page.count("img") == 1
    assert "engine: exact" in text and "1  RUN   DOWN{1,}" in text and "AdaptiveSparkPlan" in text
    assert '{"variables"' not in text[text.index("Physical plan") :]
    counts, partitions, sample, steps, jobs = tables(page)
    assert counts[:6] == ["number", "rows read", "13", "rows that reach the engine", "13", "blocks of columns that were exchanged"] and int(counts[6]) > 0
    assert counts[7:] == ["matches", "2", "rows of the result", "2"]
    assert partitions == ["symbol", "matches", "ACME", "1", "OMEGA", "1"]
    assert sample == ["symbol", "a", "z", "mark", "ACME", "2", "6", "<b>", "OMEGA", "1", "4", "<b>"]
    assert any("PythonUDTF" in cell or "match_recognize" in cell for cell in steps)
    assert jobs.count("only for this report") == 4 and jobs.count("the statement itself") == 2
    assert "No picture" not in text and "Rows are not counted by variable" in text
    assert not session.sql(ONE_ROW.format(table="ticks", rest="")).storageLevel.useMemory  # the cache is emptied


def test_a_report_of_all_rows(pages):
    page = check((pages / "all.html").read_text(encoding="utf-8"))
    counts, partitions, variables, sample, _, jobs = tables(page)
    assert counts[-6:] == ["rows that the engine returns", "13", "matches", "2", "rows of the result", "13"]
    assert partitions == ["symbol", "matches", "ACME", "1", "OMEGA", "1"]
    assert variables == ["what", "rows", "NULL", "4", "DOWN", "4", "UP", "3", "STRT", "2"]
    assert len(sample) == 5 + 13 * 5 and page.count("img") == 1
    assert "rows to draw, from the cache" in jobs


@pytest.mark.further
def test_what_a_report_cannot_tell_has_its_reason(session):
    inside = check(sparkcep.report(session, ONE_ROW.format(table="named", rest="WHERE symbol > 'M'")))
    assert "cannot be read by itself" in text_of(inside) and inside.count("img") == 0
    twice = check(sparkcep.report(session, f"SELECT * FROM ({ALL_ROWS}) AS a JOIN VALUES ('ACME') AS t(SYMBOL) ON a.symbol = t.symbol"))
    assert "the result lacks its columns, each with" in text_of(twice) and "are not all in the result" in text_of(twice)
    plain = check(sparkcep.report(session, "SELECT '\x01<i>' AS x, CAST(NULL AS INT) AS n"))
    assert "no MATCH_RECOGNIZE clause" in text_of(plain) and ["x", "n", "\ufffd<i>", "NULL"] in tables(plain)


@pytest.mark.further
def test_a_picture_that_fails_is_a_note(session, monkeypatch):
    dollars = check(sparkcep.report(session, ALL_ROWS.replace("FROM ticks", "FROM (SELECT concat('$x_{$', symbol) AS symbol, day, price FROM ticks)")))
    assert dollars.count("img") == 1 and "No picture" not in text_of(dollars)

    def fails(*_, **__):
        raise ArithmeticError("no axis")

    monkeypatch.setattr("sparkcep.draw.matches.plot", fails)
    page = check(sparkcep.report(session, ALL_ROWS))
    assert page.count("img") == 0 and "No picture of matches: drawing it failed (ArithmeticError: no axis)." in text_of(page)


def test_matches_without_partitions_are_counted_in_a_job_of_their_own(session):
    whole = ALL_ROWS.replace("PARTITION BY symbol ORDER BY day", "ORDER BY symbol, day")
    page = check(sparkcep.report(session, whole))
    counts, variables, _, _, jobs = tables(page)
    assert counts[-4:-2] == ["matches", "2"] and "number of matches, from the cache" in jobs
    assert variables[2:4] == ["DOWN", "5"] and "symbol is not a number" in text_of(page)


@pytest.mark.further
def test_unfinished_matches_are_not_counted_as_matches(session):
    shown = ONE_ROW.format(table="ticks", rest="").replace("'<b>' AS mark", "MATCH_STATUS() AS status ONE ROW PER MATCH SHOW UNFINISHED MATCHES").replace("UP+", "UP{9}")
    page = check(sparkcep.report(session, shown))
    counts, partitions, sample, *_ = tables(page)
    assert "matches" not in counts and "rows that the engine returns" in counts and partitions[:2] == ["symbol", "rows"] and {"OPEN", "BROKEN"} & set(sample)
    assert "the rows of the result are not matches alone" in text_of(page)


def test_only_queries_have_reports(session, capsys, tmp_path):
    for sql, said in (
        ("CREATE VIEW v AS SELECT 1", "not CREATE"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "not INSERT"),
        ("SELECT 1; SELECT 2", "has 2 statements"),
        ("", "has 0 statements"),
    ):
        with pytest.raises(ValueError, match=said):
            sparkcep.report(session, sql)
    for sql in ("SELECT update, max(x) delete FROM t", "WITH a AS (SELECT 1 AS merge) SELECT a.merge, insert FROM a"):  # names
        assert _query(sql) == sql
    with pytest.raises(sparkcep.ClauseError, match="UNKNOWN_VARIABLE"):
        sparkcep.report(session, ALL_ROWS.replace("DEFINE DOWN", "DEFINE NO"))
    assert main(["report", "-e", "SELECT 1", "--output", str(tmp_path / "no" / "x.html")]) == 2
    assert main(["report", "-e", ALL_ROWS.replace("DEFINE DOWN", "DEFINE NO")]) == 2
    assert "the folder does not exist" in (err := capsys.readouterr().err) and "UNKNOWN_VARIABLE" in err


@pytest.mark.slow
@pytest.mark.process
def test_the_command_line_reports_the_last_statement(tmp_path):
    table, out = tmp_path / "ticks.csv", tmp_path / "report.html"
    table.write_text("day,price\n1,12\n2,11\n3,15\n")
    sql = """CREATE TEMP VIEW shares AS SELECT * FROM ticks;
      SELECT * FROM shares MATCH_RECOGNIZE (ORDER BY day MEASURES LAST(day) AS d PATTERN (UP) DEFINE UP AS price > PREV(price))"""
    command = [sys.executable, "-m", "sparkcep", "report", "-e", sql, "--table", f"ticks={table}", "--output", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"written to {out}" in done.stdout
    page = check(out.read_text(encoding="utf-8"))
    assert ["d", "3"] in tables(page) and "measures FIRST(day) and LAST(day)" in text_of(page)


# -- a browser ------------------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_QUIET = "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --enable-logging=stderr"


def browse(page: Path, folder: Path, *arguments: str) -> tuple[str, list[str]]:
    """What the browser prints, and what the page made it say on its console."""
    command = [CHROMIUM, *_QUIET.split(), f"--user-data-dir={folder / 'profile'}", *arguments, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)


@pytest.mark.process
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (Debian: apt-get install chromium)")
def test_a_browser_shows_the_report(pages, tmp_path):
    import numpy as np
    from matplotlib.image import imread

    dom, console = browse(pages / "one.html", tmp_path, "--dump-dom")
    assert console == [] and "<svg" in dom and "engine: exact" in dom and dom.count('class="cep-state"') == 4
    _, console = browse(pages / "one.html", tmp_path, f"--screenshot={tmp_path / 'x.png'}", "--window-size=1300,900")
    assert console == []
    pixels = (imread(tmp_path / "x.png")[:, :, :3] * 255).round().astype(int)
    edges = np.argwhere(np.abs(pixels - [0x0B, 0x5C, 0xAD]).max(axis=2) < 12)
    assert len(edges) > 100 and np.ptp(edges[:, 1]) > 400  # the edges of the automaton, over most of its width
    (tmp_path / "wrong.html").write_text('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'"><script>alert(1)</script>')
    assert browse(tmp_path / "wrong.html", tmp_path, "--dump-dom")[1] != []  # the console is really read
