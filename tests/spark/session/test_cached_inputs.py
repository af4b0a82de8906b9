"""Clauses over cached, checkpointed and saved tables: the rows of the plain table, and few plannings.

An adaptive query is planned again after each stage that ends, and reads such a table in a stage of its own. If the extension's
operators lose the link between a stage and the logical plan, the query is planned indefinitely.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from sparkcep.spark.java import find_java_tool
from sparkcep.spark.session import rewrite_service
from tests.selection import first, further, slow
from tests.spark.exec.planning_differential import configured

pytestmark = pytest.mark.codegen  # it is of Spark's plans

MOST = 20  # plannings of one operator in a query
ROWS = "SELECT id % 5 AS g, id AS t, substr('abc', cast(pmod(hash(id), 3) AS INT) + 1, 1) AS k, cast(id % 3 AS STRING) AS w FROM range(300)"
CLAUSE = "{t} MATCH_RECOGNIZE (PARTITION BY g ORDER BY t MEASURES FIRST(t) AS f, LAST(t) AS x PATTERN (A B C) DEFINE A AS k = 'a', B AS k = 'b', C AS k = 'c')"
PAIRS = "{t} MATCH_RECOGNIZE (PARTITION BY g ORDER BY t MEASURES A.t AS f, B.t AS x PATTERN (A B) DEFINE A AS k = 'a', B AS k = 'b')"
OVER = "MATCH_RECOGNIZE (PARTITION BY g ORDER BY f MEASURES COUNT(*) AS n PATTERN (A U*) DEFINE U AS f > PREV(f) + 9)"
# of {t}, the table
QUERIES = {
    "one clause": f"SELECT * FROM {CLAUSE}",
    "joins and subqueries": f"""SELECT g, count(*) AS n, max(x) AS x FROM (SELECT * FROM {{t}} WHERE t > (SELECT min(t) + 3 FROM {{t}})) {PAIRS[4:]} m
      JOIN (SELECT /*+ BROADCAST */ g, t FROM {{t}}) u USING (g) JOIN (SELECT /*+ MERGE */ g, k FROM {{t}}) v USING (g)
      WHERE u.t < (SELECT max(x) FROM {CLAUSE}) AND g IN (SELECT g FROM {{t}} WHERE t < 3) GROUP BY g ORDER BY g""",
    "no partitions": f"SELECT * FROM {CLAUSE.replace('PARTITION BY g ', '')}",
    "text as a key": f"SELECT * FROM {CLAUSE.replace('PARTITION BY g ', 'PARTITION BY w, g ')} WHERE w <> '1'",
    "all rows": f"SELECT * FROM {CLAUSE.replace('PATTERN', 'ALL ROWS PER MATCH PATTERN')}",
    "rows passed over": f"SELECT * FROM {CLAUSE.replace('PATTERN', 'EVENT SELECTION SKIP TILL NEXT MATCH PATTERN')}",
    "budget": "SELECT g, s FROM {t} MATCH_RECOGNIZE (PARTITION BY g ORDER BY t MEASURES MATCH_ERRORS() AS s PATTERN (A B C) WITHIN 10 APPROX 1 PROXY MATCHES BUDGET 5 CHECKS DEFINE A AS k = 'a', B AS k = 'b', C AS k = 'c')",
    "the function": """SELECT * FROM match_recognize(TABLE(SELECT * FROM {t} DISTRIBUTE BY g SORT BY g, t), 'PARTITION BY g ORDER BY t MEASURES LAST(t) AS x
      PATTERN (A B) DEFINE A AS k = "a", B AS k = "b"')""",
    "clauses of one table": f"SELECT a.g, a.x, b.x AS y FROM {CLAUSE} a JOIN {PAIRS} b ON a.g = b.g AND b.f > a.x",
    "union": f"SELECT * FROM {CLAUSE} UNION ALL SELECT * FROM {PAIRS} UNION ALL SELECT g, t, t FROM {{t}} WHERE t % 50 = 1",
    "a clause over a clause": f"SELECT * FROM (SELECT * FROM {PAIRS}) {OVER}",
    "a clause read twice": f"WITH m AS (SELECT * FROM {PAIRS}) SELECT a.g, a.x, b.x AS y FROM m a JOIN m b ON a.g = b.g AND a.x + 15 > b.f AND a.f < b.f",
    "a broadcast input": f"SELECT * FROM (SELECT /*+ BROADCAST(s) */ r.*, s.m FROM {{t}} r JOIN (SELECT g, max(t) AS m FROM {{t}} GROUP BY g) s USING (g)) {CLAUSE[4:]}",
    "a sorted limit": f"SELECT * FROM {PAIRS} ORDER BY x DESC, g LIMIT 7",
    "a window above": f"SELECT g, x, sum(x) OVER (PARTITION BY g ORDER BY x) AS s FROM {PAIRS}",
    "no rows": f"SELECT * FROM (SELECT * FROM {{t}} WHERE k = 'z') {CLAUSE[4:]}",
    "partitions pruned": f"SELECT m.g, m.x, p.w FROM {CLAUSE} m JOIN parted p ON m.g = p.g WHERE m.f < 100 AND p.t % 7 = 1",
    "pruned below": f"SELECT * FROM (SELECT p.* FROM parted p JOIN {{t}} s ON p.g = s.g WHERE s.t = 3) {PAIRS[4:]}",
}
FORMS = list(QUERIES)


def _cached(spark, name: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS {ROWS}")
    spark.catalog.cacheTable(name)
    spark.table(name).count()


def _lazily(spark, name: str) -> None:
    spark.sql(f"CACHE LAZY TABLE {name} AS {ROWS}")


def _on_disk(spark, name: str) -> None:
    from pyspark import StorageLevel

    spark.sql(ROWS).repartition(3, "g").persist(StorageLevel.DISK_ONLY).createOrReplaceTempView(name)


def _cached_twice(spark, name: str) -> None:
    spark.sql(ROWS).cache().where("g < 4").cache().createOrReplaceTempView(name)


def _by_statement(spark, name: str) -> None:
    spark.sql(f"CACHE TABLE {name} AS {ROWS}")


def _checkpointed(spark, name: str) -> None:
    spark.sql(ROWS).localCheckpoint().createOrReplaceTempView(name)


def _reliably_checkpointed(spark, name: str) -> None:
    spark.sql(ROWS).checkpoint().createOrReplaceTempView(name)


def _saved(spark, name: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM cached_inputs_saved")


def _joined(spark, name: str) -> None:
    """A cached table under a join, as a view."""
    spark.sql(ROWS).cache().createOrReplaceTempView(f"{name}_rows")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT r.g, r.t, r.k, r.w FROM {name}_rows r JOIN (SELECT t FROM {name}_rows WHERE t > 1) s USING (t)")


def _result(spark, name: str) -> None:
    """The cached rows of another clause."""
    spark.sql(f"CACHE TABLE {name} AS SELECT g, t, k, w FROM ({ROWS}) MATCH_RECOGNIZE (PARTITION BY w ORDER BY t ALL ROWS PER MATCH PATTERN (A+))")


INPUTS = {"cached": _cached, "lazily": _lazily, "on disk": _on_disk, "twice": _cached_twice, "by statement": _by_statement, "local checkpoint": _checkpointed,
          "checkpoint": _reliably_checkpointed, "saved": _saved, "joined": _joined, "result": _result}
SETTINGS = {
    "plain": {},
    "no prefilter": {"sparkcep.prefilter": "false"},
    "slices": {"sparkcep.slices": "always"},
    "Spark's operator": {"sparkcep.mapInArrow": "false"},
    "no reuse": {"spark.sql.exchange.reuse": "false"},
    "no broadcast": {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    "interpreted": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "not adaptive": {"spark.sql.adaptive.enabled": "false"},
    "everything adaptive": {"spark.sql.adaptive.forceApply": "true", "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true"},
    "cached plans not adaptive": {"spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "false"},
}
REFERENCE = {"sparkcep.mapInArrow": "false", "sparkcep.prefilter": "false", "sparkcep.slices": "false", "spark.sql.adaptive.enabled": "false"}


@pytest.fixture(scope="module")
def caching(spark, tmp_path_factory):
    if not hasattr(spark, "_jvm"):
        pytest.skip("a classic session is needed")
    if find_java_tool("javac") is None:
        pytest.skip("no Java compiler: Spark's own operator runs the function")
    spark.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("checkpoints")))
    spark.sql(f"CREATE TABLE cached_inputs_saved USING parquet AS {ROWS}")
    spark.sql(f"CREATE TABLE parted USING parquet PARTITIONED BY (g) AS {ROWS}")
    yield spark
    spark.catalog.clearCache()
    for view in ("cached_input", "cached_input_rows"):
        spark.catalog.dropTempView(view)
    spark.sql("DROP TABLE cached_inputs_saved")
    spark.sql("DROP TABLE parted")


@pytest.fixture
def plannings(monkeypatch):
    """How often each operator was planned, by its plan. The JVM asks for its command each time. Too often is an error."""
    counts: Counter[str] = Counter()
    answer = rewrite_service.answer

    def counting(request: str) -> str:
        asked = json.loads(request)
        if asked.get("kind") == "mapper":
            counts[asked["plan"]] += 1
            assert counts[asked["plan"]] <= MOST, f"an operator is planned more than {MOST} times"
        return answer(request)

    monkeypatch.setattr(rewrite_service, "answer", counting)
    return counts


def rows(spark, query: str) -> list:
    return sorted(map(tuple, spark.sql(query).collect()), key=repr)


def compare(spark, plannings, make, forms, settings) -> int:
    """Compares queries over a cached table with those over the plain one; returns the most plannings that one took."""
    most = 0
    for form in forms:
        spark.catalog.clearCache()
        spark.catalog.dropTempView("cached_input")
        make(spark, "cached_input")
        with configured(spark, SETTINGS[settings]):
            plannings.clear()
            found = rows(spark, QUERIES[form].replace("{t}", "cached_input"))
            most = max([most, *plannings.values()])
        plain = f"(SELECT * FROM ({ROWS}){' WHERE g < 4' if make is _cached_twice else ' WHERE t > 1' if make is _joined else ''})"
        spark.catalog.clearCache()
        with configured(spark, REFERENCE):
            expected = rows(spark, QUERIES[form].replace("{t}", plain))
        assert found == expected, form
        assert bool(found) == (form != "no rows"), form
    return most


@pytest.mark.parametrize("form", first(FORMS, wider=5))
def test_forms_of_queries(caching, plannings, form):
    assert compare(caching, plannings, _cached, [form], "plain") > 0


@pytest.mark.parametrize("make", first([pytest.param(make, id=name) for name, make in INPUTS.items()], 2, wider=6))
def test_kinds_of_inputs(caching, plannings, make):
    assert compare(caching, plannings, make, FORMS[:1], "plain") > 0


def test_cached_matches_are_read(caching, plannings):
    """Spark looks for a cached table by its plan, so the plan of a view has to be equal each time that it is analysed."""
    clause = CLAUSE.replace("{t}", f"(SELECT * FROM ({ROWS}))")
    function = """match_recognize(TABLE(SELECT * FROM range(9)), "ORDER BY id MEASURES LAST(id) AS x PATTERN (A B) DEFINE B AS id % 3 = 1")"""
    for i, source in enumerate((clause, function)):
        name = f"cached_input_{i}"
        caching.sql(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {source}")
        caching.catalog.cacheTable(name)
        expected = rows(caching, f"SELECT * FROM {name}")
        plannings.clear()
        for query in (f"SELECT * FROM {name}", f"SELECT f.* FROM {name} f WHERE x IS NOT NULL"):
            assert "InMemoryRelation" in caching.sql(query)._jdf.queryExecution().executedPlan().toString()
            assert rows(caching, query) == expected and expected
        assert not plannings
        caching.catalog.uncacheTable(name)
        caching.catalog.dropTempView(name)


@pytest.mark.parametrize("settings", [further(name) if name in ("slices", "everything adaptive") else slow(name) for name in SETTINGS])
def test_settings(caching, plannings, settings):
    compare(caching, plannings, _lazily, FORMS[:2], settings)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in INPUTS.items()])
def test_all(caching, plannings, make, settings):
    compare(caching, plannings, make, FORMS, settings)
