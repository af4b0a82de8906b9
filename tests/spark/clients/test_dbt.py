"""The example project and its package, run by dbt itself: in a session of its own, and over thrift."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq  # noqa: E402

from sparkcep.cli.cli import main  # noqa: E402
from tests.spark.programs import SPARKCEP, environment, needs_javac  # noqa: E402

pytestmark = [needs_javac, pytest.mark.process, pytest.mark.skipif(find_spec("dbt") is None, reason="no dbt here")]

EXAMPLE = Path(__file__).resolve().parents[3] / "sql_examples" / "dbt"
DBT = [str(Path(sys.executable).with_name("dbt"))]

SESSIONS = [
    ("ann", "2026-02-27 18:00", "2026-02-27 18:00", ["search"]),
    ("ann", "2026-03-01 09:00", "2026-03-01 09:30", ["search", "view", "view", "add", "buy"]),
    ("bob", "2026-03-01 23:50", "2026-03-02 00:10", ["search", "view"]),
    ("ann", "2026-03-02 10:00", "2026-03-02 10:10", ["search", "view"]),
    ("cleo", "2026-03-02 23:40", "2026-03-03 00:05", ["view", "add", "buy"]),
    ("bob", "2026-03-03 08:00", "2026-03-03 08:03", ["search", "view", "add", "buy"]),
    ("ann", "2026-03-03 12:00", "2026-03-03 12:00", ["search"]),
    ("cleo", "2026-03-04 07:00", "2026-03-04 07:00", ["search"]),
]
# what is known of them before the third of March
EARLY = [*SESSIONS[:4], ("cleo", "2026-03-02 23:40", "2026-03-02 23:55", ["view", "add"])]

BROKEN = """SELECT *
FROM {{ ref('ticks') }} MATCH_RECOGNIZE (
  ORDER BY day MEASURES A.day AS d
  PATTERN (A)
  DEFINE B AS price > 10
)
"""
STEPS = "SELECT * FROM VALUES ('a', 1, 10), ('a', 2, 20), ('a', 3, 30), ('b', 1, 5), (NULL, 1, 7) AS t(k, n, x)"
NAMED = """{{ config(materialized='table') }}
SELECT * FROM {{ ref('steps') }} MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY n
  MEASURES A.n AS a, B.n AS b, MATCH_SCORE() AS score
  EVENT SELECTION SKIP TILL ANY MATCH
  SEQUENCE S1 AS (A) PREF MAX (A.x) SEQUENCE S2 AS (B) PREF MIN (B.x)
  PATTERN (S1 & S2)
  TOP 1
  DEFINE A AS n > 1, B AS n < 3)
"""
# tests of the package that must find something
FINDING = """
models:
  - name: steps
    data_tests:
      - sparkcep.matches_no_pattern:
          name: two_rises
          partition_by: k
          order_by: n
          pattern: A B{2,}
          define: {B: x > PREV(x)}
          config: {severity: warn, store_failures: true}
      - sparkcep.matches_pattern:
          name: each_k_has_two_rows
          partition_by: [k]
          order_by: [n]
          pattern: "{- A -} B"
          config: {severity: warn}
      - sparkcep.matches_pattern:
          name: four_rows_in_all
          order_by: n DESC
          options: AFTER MATCH SKIP TO NEXT ROW
          pattern: A{4}
          config: {severity: warn, where: n > 1}
"""

WRONG = """
sources:
  - name: other
    tables:
      - name: t
        data_tests:
          - sparkcep.matches_pattern: {pattern: A, order_by: n, define: x > 1}
"""


class Project:
    """A copy of the example in which dbt is run."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("target", "logs", "dbt_packages", "spark-warehouse", "metastore_db"))
        self.folder = folder / "project"
        self.environment = environment(DBT_SEND_ANONYMOUS_USAGE_STATS="false", NO_COLOR="1")

    def dbt(self, command: list[str], *arguments: str, **variables: str) -> tuple[int, str]:
        """Exit code and output."""
        done = subprocess.run(
            [*command, *arguments],
            cwd=self.folder, env={**self.environment, **variables}, timeout=600,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return done.returncode, done.stdout

    def results(self) -> dict[str, dict]:
        """What became of each node of the last run, by its name."""
        results = self.target("run_results.json")["results"]
        # test.project.name.digest, unit_test.project.model.name, model.project.name
        return {r["unique_id"].split(".")[3 if r["unique_id"].startswith("unit_test.") else 2]: r for r in results}

    def target(self, name: str) -> dict:
        return json.loads((self.folder / "target" / name).read_text("utf-8"))

    def sessions(self) -> list[tuple]:
        table = pq.read_table(self.folder / "spark-warehouse" / "patterns.db" / "sessions")
        found = table.select(["visitor", "began_at", "ended_at", "actions"]).to_pylist()
        return sorted((tuple(map(written, row.values())) for row in found), key=lambda row: row[1])

    def history(self) -> set[tuple]:
        """Vectors of the model of histories, with their day."""
        table = pq.read_table(self.folder / "spark-warehouse" / "patterns.db" / "history_of_sales")
        return {tuple(map(str, row.values())) for row in table.select(["day", "place", "errors", "visits", "points"]).to_pylist()}

    def files(self, day: str) -> set[str]:
        return {p.name for p in (self.folder / "spark-warehouse" / "patterns.db" / "sessions" / f"day={day}").glob("*.parquet")}


def written(value: object) -> object:
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else value


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A project with the package installed into it."""
    project = Project(tmp_path_factory.mktemp("dbt") / "dbt")
    code, out = project.dbt(DBT, "deps")
    assert code == 0 and "Installed from <local @ ../package>" in out, out
    return project


@pytest.fixture(scope="module")
def first(package):
    """A project in which models were built from the clicks up to the second of March, with one that cannot be."""
    models = package.folder / "models"
    more = {"broken.sql": BROKEN, "steps.sql": STEPS, "named.sql": NAMED, "finding.yml": FINDING}
    for name, text in more.items():
        (models / name).write_text(text, "utf-8")
    package.code, package.out = package.dbt([*SPARKCEP, "dbt"], "build", "--vars", "{until: 2026-03-03}")
    package.first_results = package.results()
    package.first_sessions = package.sessions()
    package.first_history = package.history()
    package.first_files = {day: package.files(day) for day in ("2026-02-27", "2026-03-02")}
    for name in more:
        (models / name).unlink()
    return package


@pytest.fixture(scope="module")
def second(first):
    """The same project after a run with all clicks."""
    code, out = first.dbt([*SPARKCEP, "dbt"], "build", "--select", "stg_clicks+")
    assert code == 0, out
    return first


def test_define_that_is_no_mapping(package):
    wrong = package.folder / "models" / "wrong.yml"
    wrong.write_text(WRONG, "utf-8")
    code, out = package.dbt(DBT, "parse")
    wrong.unlink()
    assert code != 0 and "define must map variables to conditions" in out and "it is: x > 1" in out, out
    assert "wrong.yml" in out


def test_models_and_tests_in_a_session(first):
    status = {name: r["status"] for name, r in first.first_results.items()}
    bad = {name: s for name, s in status.items() if s not in ("success", "pass")}
    assert bad == {"broken": "error", "two_rises": "warn", "each_k_has_two_rows": "warn", "four_rows_in_all": "warn"}, first.out
    assert set(status) > {"v_shapes", "rises", "sessions", "searches_that_sold", "carts", "history_of_sales", "a_fall_without_a_rise_is_no_v"}
    assert first.first_sessions == EARLY


@pytest.mark.slow
def test_a_run_leaves_the_history_of_the_next(first, second):
    """Ann's search, view, cart and purchase: at each step all was there before. Of the last day only cleo's search is new, by a run
    with a budget and the history of before."""
    assert {day for day, *_ in first.first_history} == {"2026-03-02"} and ("2026-03-02", "4", "0", "1", "1") in first.first_history
    assert second.history() - first.first_history == {("2026-03-04", "1", "0", "1", "0")}


def test_a_model_of_named_sequences(first):
    (row,) = pq.read_table(first.folder / "spark-warehouse" / "patterns.db" / "named").to_pylist()
    assert row == {"k": "a", "a": 3, "b": 1, "score": 20}


def test_tests_of_the_package_find_what_is_there(first):
    found = {name: r["failures"] for name, r in first.first_results.items() if r["status"] == "warn"}
    assert found == {"two_rises": 1, "each_k_has_two_rows": 2, "four_rows_in_all": 1}
    (stored,) = pq.read_table(first.folder / "spark-warehouse" / "patterns_dbt_test__audit.db" / "two_rises").to_pylist()
    assert stored == {"k": "a", "match_rows": 3, "first_n": 1, "last_n": 3}


def test_an_error_of_a_clause_has_its_place(first, capsys):
    message = first.first_results["broken"]["message"]
    assert "[SPARKCEP.UNKNOWN_VARIABLE] B is defined but is not a variable of PATTERN" in message and "Traceback" not in message
    line, column = map(int, re.search(r"\(line (\d+), column (\d+): 'B'\)", message).groups())
    sent = (first.folder / "target" / "run" / "row_patterns" / "models" / "broken.sql").read_text("utf-8").splitlines()
    assert sent[line - 1][column - 1 :] == "B AS price > 10"
    compiled = first.folder / "target" / "compiled" / "row_patterns" / "models" / "broken.sql"
    assert main(["lint", str(compiled)]) == 2
    assert f"{compiled}:5:10: error SPARKCEP.UNKNOWN_VARIABLE" in capsys.readouterr().out


@pytest.mark.slow
def test_an_incremental_run(second):
    assert second.first_sessions == EARLY
    assert second.sessions() == SESSIONS
    # old days are left alone, the last ones are written anew
    assert second.files("2026-02-27") == second.first_files["2026-02-27"]
    assert second.files("2026-03-02").isdisjoint(second.first_files["2026-03-02"])


@pytest.mark.slow
def test_lineage_and_columns(second):
    code, out = second.dbt([*SPARKCEP, "dbt"], "docs", "generate")
    assert code == 0, out
    manifest = second.target("manifest.json")
    clicks, ticks = "source.row_patterns.raw.clicks", "seed.row_patterns.ticks"
    parents = {name.split(".")[2]: set(of) for name, of in manifest["parent_map"].items() if name.startswith("model.")}
    assert parents == {
        "stg_clicks": {clicks, "seed.row_patterns.clicks"},
        "sessions": {"model.row_patterns.stg_clicks"},
        "searches_that_sold": {"model.row_patterns.stg_clicks"},
        "history_of_sales": {"model.row_patterns.stg_clicks"},
        "carts": {clicks, "seed.row_patterns.clicks"},
        "v_shapes": {ticks},
        "rises": {ticks},
    }
    models = {name for name in manifest["child_map"][ticks] if name.startswith("model.")}
    assert models == {"model.row_patterns.v_shapes", "model.row_patterns.rises"}
    tests = {name.split(".")[2]: of for name, of in manifest["parent_map"].items() if name.startswith("test.")}
    assert tests["rises_do_not_overlap"] == ["model.row_patterns.rises"]
    assert tests["nothing_is_bought_that_was_not_added"] == [clicks]
    catalog = second.target("catalog.json")
    columns = {
        name.rpartition(".")[2]: {c: found["type"] for c, found in node["columns"].items()}
        for name, node in {**catalog["nodes"], **catalog["sources"]}.items()
    }
    assert columns["v_shapes"] == {"symbol": "string", "start_day": "date", "bottom_day": "date", "end_day": "date", "gain": "double"}
    assert columns["rises"] == {"symbol": "string", "from_day": "date", "to_day": "date", "days": "long"}
    assert list(columns["sessions"]) == ["visitor", "began_at", "ended_at", "clicks", "actions", "day"]
    assert columns["carts"] == {"visitor": "string", "filled_at": "timestamp", "bought_at": "timestamp"}
    assert columns["clicks"] == {"visitor": "string", "clicked_at": "timestamp", "action": "string"}


@pytest.mark.slow
def test_thrift(package, thrift_server, tmp_path):
    """The project as it is; dbt does not know that the server is one of ours."""
    project = Project(tmp_path / "dbt")
    shutil.copytree(package.folder / "dbt_packages", project.folder / "dbt_packages", symlinks=False)
    server = thrift_server()
    code, out = project.dbt(DBT, "build", "--target", "thrift", THRIFT_PORT=str(server.port))
    assert code == 0, out
    statuses = [r["status"] for r in project.results().values()]
    assert statuses.count("success") == 9 and statuses.count("pass") == len(statuses) - 9
    cursor = server.session()

    def rows(query: str) -> list[tuple]:
        cursor.execute(query)
        return [tuple(map(str, row)) for row in cursor.fetchall()]

    assert rows("SELECT visitor, began_at, ended_at, clicks FROM patterns.sessions ORDER BY began_at") == [
        (visitor, f"{began}:00", f"{ended}:00", str(len(actions))) for visitor, began, ended, actions in SESSIONS
    ]
    assert rows("SELECT * FROM patterns.v_shapes ORDER BY symbol") == [
        ("ACME", "2026-03-03", "2026-03-05", "2026-03-10", "10.5"),
        ("OMEGA", "2026-03-03", "2026-03-04", "2026-03-05", "0.5"),
    ]
    assert rows("SELECT * FROM patterns.rises") == [("ACME", "2026-03-06", "2026-03-10", "3")]
    sold = rows("SELECT visitor, action, sale FROM patterns.searches_that_sold ORDER BY visitor, clicked_at")
    # the views between are excluded
    assert sold == [(visitor, action, "1") for visitor in ("ann", "bob") for action in ("search", "add", "buy")]
    assert rows("SELECT visitor FROM patterns.carts ORDER BY visitor") == [("ann",), ("bob",), ("cleo",)]
