"""Rows that are exchanged as blocks of columns have the order of Spark's window functions, for each type of key and order."""

from __future__ import annotations

import os
import random
import re
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import udf

import sparkcep
from sparkcep.spark.exec.physical_plan import nodes
from sparkcep.spark.java import find_java_tool
from tests.selection import first, further
from tests.spark.configured import configured

pytestmark = pytest.mark.codegen  # it is of Spark's plans

# type -> an expression over id with few values, among them those that are special
TYPES = {
    "boolean": "id % 3 = 0",
    "tinyint": "CAST(id % 5 - 2 AS TINYINT)",
    "smallint": "CAST((id % 5 - 2) * 9000 AS SMALLINT)",
    "int": "CAST((id % 5 - 2) * 1000000000 AS INT)",
    "bigint": "(id % 5 - 2) * 4000000000000000000",
    "float": "CAST(element_at(array('NaN', '-0.0', '0.0', 'Infinity', '-Infinity', '1.5'), CAST(id % 6 AS INT) + 1) AS FLOAT)",
    "double": "CAST(element_at(array('NaN', '-0.0', '0.0', 'Infinity', '-Infinity', '-1.5'), CAST(id % 6 AS INT) + 1) AS DOUBLE)",
    "decimal": "CAST((id % 5 - 2) * 1.25 AS DECIMAL(10, 2))",
    "wide": "CAST((id % 5 - 2) * 12345678901234567890.125 AS DECIMAL(30, 3))",
    "date": "date_add(DATE '1969-12-30', CAST(id % 5 AS INT))",
    "timestamp": "timestamp_micros((id % 5 - 2) * 1000000007)",
    "timestamp_ntz": "CAST(timestamp_micros((id % 5 - 2) * 1000000007) AS TIMESTAMP_NTZ)",
    "interval": "make_dt_interval(CAST(id % 5 AS INT) - 2, 1)",
    "time": "CAST(concat(id % 5, ':30:00.000001') AS TIME)",
    "string": "element_at(array('', 'a', 'a\\0', 'a name that is longer than eight bytes', 'é', 'eight...', 'eight...\\0'), CAST(id % 7 AS INT) + 1)",
    "binary": "CAST(element_at(array('', 'b', 'a name that is longer than eight bytes'), CAST(id % 3 AS INT) + 1) AS BINARY)",
}
NAMES = list(TYPES)
SIZES = {"sparkcep.exchange.taskBytes": "1", "sparkcep.exchange.workerBytes": "1"}


@pytest.fixture(scope="module")
def exchanged(spark, tmp_path_factory):
    if not hasattr(spark, "_jvm"):
        pytest.skip("a classic session is needed")
    if find_java_tool("javac") is None:
        pytest.skip("no Java compiler: rows are exchanged")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    columns = ", ".join(f"IF(hash(id, {i}) % 7 = 0, NULL, {sql}) AS `{name}`" for i, (name, sql) in enumerate(TYPES.items()))
    spark.sql(f"CREATE OR REPLACE TEMP VIEW of_types AS SELECT id, {columns} FROM (SELECT hash(id) % 1000 + 1000 AS id FROM range(0, 300, 1, 3))")
    spark.conf.set("sparkcep.exchange", "columns")
    stored = str(tmp_path_factory.mktemp("blocks") / "stored")
    spark.table("of_types").write.parquet(stored)
    spark.read.parquet(stored).createOrReplaceTempView("stored_types")
    yield spark
    spark.conf.unset("sparkcep.exchange")
    spark.conf.unset("spark.sql.timeType.enabled")


def plan_of(spark, query: str) -> str:
    return spark.sql(query)._jdf.queryExecution().executedPlan().toString()


def clause(partition: str, order: str, table: str = "of_types") -> str:
    return f"{table} MATCH_RECOGNIZE ({partition} ORDER BY {order}, id MEASURES COUNT(*) AS place ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS TRUE)"


HOW = ("", "DESC", "NULLS LAST", "DESC NULLS FIRST")


def one_type_each() -> list[tuple[str, str]]:
    """PARTITION BY and ORDER BY of clauses, each ordered by one type."""
    found = []
    for i, name in enumerate(NAMES):
        key = NAMES[(i + 4) % len(NAMES)]
        found.append(((f"PARTITION BY `{key}`", f"PARTITION BY `{key}`, `{NAMES[i - 3]}`", "")[i % 3], f"`{name}` {HOW[i % 4]}"))
    return found


def four_types_each() -> list[tuple[str, str]]:
    """PARTITION BY and ORDER BY of four clauses. Each type is a key of one, and orders another."""
    groups = [NAMES[i::4] for i in range(4)]
    keys = [", ".join(f"`{name}`" for name in groups[i - 1][:2]) for i in range(4)]
    return [(f"PARTITION BY {keys[i]}" if i else "", ", ".join(f"`{name}` {how}" for name, how in zip(group, HOW))) for i, group in enumerate(groups)]


ROUTES = {
    "rows": ("of_types", "true", {}), "rows, small blocks": ("of_types", "false", SIZES),
    "batches": ("stored_types", "false", {}), "batches, small blocks": ("stored_types", "true", SIZES),
}  # fmt: skip


@pytest.mark.parametrize("keys, route", [
    further(pytest.param(four_types_each, "rows")), (four_types_each, "batches, small blocks"), *(further(pytest.param(one_type_each, route)) for route in ROUTES),
])  # fmt: skip
def test_order_of_each_type(exchanged, keys, route):
    table, adaptive, sizes = ROUTES[route]
    for key, value in {"spark.sql.adaptive.enabled": adaptive, **sizes}.items():
        exchanged.conf.set(key, value)
    try:
        ours, sparks = [], []
        for partition, order in keys():
            ours.append(f"SELECT '{order} {partition}' AS t, id, place FROM {clause(partition, order, table)}")
            sparks.append(f"SELECT '{order} {partition}' AS t, id, row_number() OVER ({partition} ORDER BY {order}, id) FROM of_types")
        query = " UNION ALL ".join(ours)
        assert plan_of(exchanged, query).count("MatchBlocks") == len(ours)
        frame = exchanged.sql(query)
        found = frame.collect()
        reads_batches = [node.getClass().getSimpleName() for _, node in nodes(frame._jdf.queryExecution().executedPlan()) if node.nodeName() == "MatchBlocks"]
        assert set(reads_batches) == {"BatchBlocksExec" if table == "stored_types" else "BlocksExec"}
        assert sorted(map(tuple, found)) == sorted(map(tuple, exchanged.sql(" UNION ALL ".join(sparks)).collect()))
    finally:
        for key in ("spark.sql.adaptive.enabled", *sizes):
            exchanged.conf.unset(key)


@pytest.mark.parametrize("blocks", [further(1), 3])
def test_an_adaptive_query_does_not_count_blocks_as_rows(exchanged, blocks):
    """LIMIT, DISTINCT and ORDER BY have other results than those of as many rows as there are blocks."""
    below = f"(SELECT id % 4 AS k, id FROM range(0, 300, 1, {blocks}))"
    match = f"(SELECT k, id FROM {clause('', 'k', below)})"
    assert "MatchBlocks" in plan_of(exchanged, f"SELECT * FROM {match}")
    assert len(exchanged.sql(f"SELECT * FROM {match} LIMIT 5").collect()) == 5
    assert exchanged.sql(f"SELECT count(*) FROM (SELECT * FROM {match} LIMIT 7 OFFSET 2)").first()[0] == 7
    assert sorted(row.k for row in exchanged.sql(f"SELECT DISTINCT k FROM {match}").collect()) == [0, 1, 2, 3]
    assert [row.id for row in exchanged.sql(f"SELECT id FROM {match} ORDER BY id DESC").collect()] == list(range(299, -1, -1))


def test_a_condition_after_one_that_is_null_is_not_evaluated(exchanged):
    below = "(SELECT id FROM stored_types WHERE IF(id % 5 = 0, NULL, TRUE) AND 1 / (id % 5) > 0.3)"
    expected = exchanged.sql(f"SELECT id FROM {below}").collect()
    assert sorted(exchanged.sql(f"SELECT id FROM {clause('', 'id', below)}").collect()) == sorted(expected) and expected


def test_a_condition_guards_parts_that_occur_twice(exchanged):
    """Spark's predicates evaluate such a part first, but not those of its filter and of FILTER."""
    guarded = "id % 5 <> 0 AND 10 / (id % 5) > 3 AND 10 / (id % 5) < 9"
    below = f"(SELECT id FROM stored_types WHERE {guarded})"
    expected = exchanged.sql(f"SELECT id FROM {below}").collect()
    assert sorted(exchanged.sql(f"SELECT id FROM {clause('', 'id', below)}").collect()) == sorted(expected) and expected
    texts = f"listagg(string(id), ',') FILTER (WHERE {guarded})"
    found = exchanged.sql(f"SELECT max_by(l, id) FROM stored_types MATCH_RECOGNIZE (ORDER BY id MEASURES {texts} AS l ALL ROWS PER MATCH PATTERN (A+))").first()[0]
    assert sorted(map(int, found.split(","))) == sorted(row.id for row in expected)


def test_a_condition_on_a_day_reaches_the_scan(exchanged):
    """A cast of a TIMESTAMP to DATE never fails, so nothing guards it."""
    day = "CAST(`timestamp` AS DATE) = DATE '1970-01-01'"
    query = f"SELECT n FROM stored_types MATCH_RECOGNIZE (ORDER BY id MEASURES COUNT(*) AS n EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) DEFINE A AS id > 1000 AND {day}, B AS id > 1001 AND {day})"
    assert "GreaterThanOrEqual(timestamp," in plan_of(exchanged, query)
    assert "GreaterThanOrEqual(string," not in plan_of(exchanged, query.replace("`timestamp`", "`string`"))


@pytest.mark.further
@pytest.mark.parametrize("adaptive, half", [(adaptive, half) for adaptive in ("true", "false") for half in (0, 1)])
def test_equal_exchanges_run_once(exchanged, adaptive, half):
    """Clauses over the same blocks share them, and clauses that differ do not."""
    one = f"(SELECT id, place FROM {clause('PARTITION BY `string`', '`int`', 'stored_types')})"
    others = {
        one: 1,
        one.replace("`int`,", "`int` DESC,"): 0,
        one.replace("`int`,", "`int` NULLS LAST,"): 0,
        one.replace("`int`,", "`date`,"): 0,
        one.replace("BY `string`", "BY `binary`"): 0,
        one.replace("PARTITION BY `string`", ""): 0,
        one.replace("stored_types", "(SELECT * FROM stored_types WHERE id > 1000)"): 0,
        one.replace("stored_types", "(SELECT * EXCEPT (`int`), `int` % 7 AS `int` FROM stored_types)"): 0,
    }
    others = {one: 1} | dict(list(others.items())[half::2])
    exchanged.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        alone = {part: exchanged.sql(f"SELECT * FROM {part}").collect() for part in others}
        for other, shared in others.items():
            frame = exchanged.sql(f"SELECT 1 AS t, * FROM {one} UNION ALL SELECT 2, * FROM {other}")
            rows = frame.collect()
            assert frame._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0].count("ReusedExchange") == shared, other
            assert sorted(map(tuple, rows)) == sorted((t, *row) for t, part in ((1, one), (2, other)) for row in alone[part])
    finally:
        exchanged.conf.unset("spark.sql.adaptive.enabled")


def test_all_columns_arrive(exchanged):
    shown = ", ".join(f"hash(`{name}`), `{name}` IS NULL" for name in NAMES)
    found = exchanged.sql(f"SELECT id, {shown} FROM {clause('PARTITION BY `string`', '`double`')}").collect()
    assert sorted(map(tuple, found)) == sorted(map(tuple, exchanged.sql(f"SELECT id, {shown} FROM of_types").collect()))


@pytest.mark.parametrize("table", ["stored_types", further("of_types"), further("stored_names")])
def test_the_output_is_distributed_by_the_keys(exchanged, tmp_path, table):
    """Rows are where Spark's own exchange puts them, whether their keys come as rows, as entries of a dictionary, or as strings."""
    if table == "stored_names":
        names = exchanged.table("of_types").toArrow().select(["id", "string", "int"])
        pq.write_table(names, tmp_path / "names.parquet", use_dictionary=False)
        exchanged.read.parquet(str(tmp_path / "names.parquet")).createOrReplaceTempView(table)
    one = "SELECT `string` AS k, count(*) AS n FROM {} GROUP BY `string`".format(clause("PARTITION BY `string`", "`int`", table))
    plan = plan_of(exchanged, one)
    assert plan.count("Exchange hashpartitioning") == 1 and "block_partition" in plan and "Sort [" not in plan
    joined = f"SELECT a.k, a.n, b.m FROM ({one}) a JOIN (SELECT `string` AS k, count(*) AS m FROM of_types GROUP BY `string`) b ON a.k = b.k"
    apart = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.shuffle.partitions": "5", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    with configured(exchanged, apart):  # rows in a wrong partition would meet in one that is brought together
        rows = exchanged.sql(joined).collect()
    counted = {row.k: row.n for row in exchanged.sql("SELECT `string` AS k, count(*) AS n FROM of_types WHERE `string` IS NOT NULL GROUP BY `string`").collect()}
    assert {row.k: row.n for row in rows} == {row.k: row.m for row in rows} == counted


def test_conditions_and_computed_columns_over_batches(exchanged):
    """Filters, computed columns and a computed key between a table's batches and the clause are evaluated for each row."""
    below = "(SELECT `int` + 1 AS more, upper(`string`) AS name, `double`, id FROM stored_types WHERE id % 3 > 0 AND (`int` IS NULL OR `int` + 1 > 0))"
    query = f"SELECT more, name, `double`, id, place FROM {clause('PARTITION BY name', '`double` DESC, more', below)}"
    frame = exchanged.sql(query)
    rows = frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    assert [node.getClass().getSimpleName() for _, node in nodes(plan) if node.nodeName() == "MatchBlocks"] == ["BatchBlocksExec"]
    expected = exchanged.sql(f"SELECT *, row_number() OVER (PARTITION BY name ORDER BY `double` DESC, more, id) FROM {below}").collect()
    assert sorted(map(str, map(tuple, rows))) == sorted(map(str, map(tuple, expected))) and rows


def test_projections_that_repeat_columns_stay_apart(exchanged):
    """A column that each of some steps reads three times would be an expression of 3 ** steps parts: twelve steps did not end."""
    one = "(SELECT IF(id > 0, id - 1, id) AS id FROM stored_types)"
    many = one
    for i in range(1, 9):
        many = f"(SELECT IF(id > {i}, id - 1, id) AS id FROM {many})"
    fields = ", ".join(f"'f{i}', id + {i}" for i in range(30))  # each reads the struct
    for below, kind in ((one, "BatchBlocksExec"), (f"(SELECT id, named_struct({fields}) AS s FROM stored_types)", "BatchBlocksExec"), (many, "BlocksExec")):
        with configured(exchanged, {"spark.sql.adaptive.enabled": "false"}):
            plan = exchanged.sql(f"SELECT * FROM {clause('', 'id', below)}")._jdf.queryExecution().executedPlan()
        assert [node.getClass().getSimpleName() for _, node in nodes(plan) if node.nodeName() == "MatchBlocks"] == [kind]


# A computed column of each width over one column, over another, and over both.
COMPUTED = """v * 2 AS twice, v > 3 AS large, CAST(v AS SMALLINT) AS small, CAST(v AS TINYINT) AS least, CAST(v AS DECIMAL(30, 2)) / 3 AS wide,
  nullif(v, 4) AS some, CAST(v AS STRING) AS text, upper(w) AS shout, CAST(w AS BINARY) AS bytes, concat(w, v) AS both, length(k) AS letters"""


KEYS = [("TRUE", "k"), ("w LIKE '%1%' OR k IS NULL", "k"), ("TRUE", "u"), ("w <> '7'", "k, w"), ("TRUE", ""), ("v > 2", "v"), ("TRUE", "upper(k)"), ("TRUE", "z, u")]


@pytest.mark.parametrize("where, partition", first([pytest.param(*key) for key in KEYS], 1, len(KEYS)))
def test_dictionaries(exchanged, tmp_path, where, partition):
    """Column chunks of Parquet have dictionaries of their own. One is given up in the middle of a chunk, when it gets too large.

    ``u`` is another string in each row, ``z`` has strings that end in a zero byte.
    """
    rng = random.Random(3)
    rows, groups = 24_000, 4
    words = [f"{'a long word ' * (i % 3)}{i}" for i in range(3000)]
    table = pa.table({
        "k": [None if rng.random() < 0.01 else words[rng.randrange(40) + 40 * (i * groups // rows)] for i in range(rows)],
        "t": pa.array(range(rows), pa.int64()),
        "w": [None if rng.random() < 0.1 else rng.choice(words) for _ in range(rows)],
        "v": pa.array([None if rng.random() < 0.1 else rng.randrange(9) for _ in range(rows)], pa.int32()),
        "u": [f"{i}{'' if i % 5 else ' is a long one'}" for i in rng.sample(range(rows), rows)],
        "z": [rng.choice(["", "\0", "a", "a\0", "eight...", "seven..\0", "eight...\0", None]) for _ in range(rows)],
    })  # fmt: skip
    for limit in (16_384, 1 << 20):
        stored = tmp_path / f"{limit}.parquet"
        pq.write_table(table, stored, row_group_size=rows // groups, data_page_size=8192, dictionary_pagesize_limit=limit)
        exchanged.read.parquet(str(stored)).createOrReplaceTempView("words")
        by = f"PARTITION BY {partition}" if partition else ""
        below = f"(SELECT *, {COMPUTED} FROM words WHERE {where})"
        query = f"SELECT * FROM {below} MATCH_RECOGNIZE ({by} ORDER BY t MEASURES COUNT(*) AS n, LAST(w) AS l, MATCH_NUMBER() AS m ALL ROWS PER MATCH PATTERN (A+) DEFINE A AS v > 1 OR w > '2')"
        assert "MatchBlocks" in plan_of(exchanged, query)
        with configured(exchanged, {"sparkcep.exchange": "rows"}):
            expected = exchanged.sql(query).toArrow()
        found = exchanged.sql(query).toArrow().select(expected.column_names)
        assert found.num_rows > 1000 and found.sort_by("t").equals(expected.sort_by("t"))
        assert found.num_rows == exchanged.sql(f"SELECT * FROM {below} WHERE v > 1 OR w > '2'").count()


# Types that are one type in Arrow: it has one interval and one precision of times.
SHORTER = {
    "day": "INTERVAL '1' DAY * id", "minute": "CAST(INTERVAL '01:30' HOUR TO MINUTE * id AS INTERVAL HOUR TO MINUTE)", "time": "CAST('01:02:03.123' AS TIME(3))",
    "second": "CAST('01:02:03' AS TIME(0))", "name": "CAST(concat('n', id) AS VARCHAR(9))", "parts": "named_struct('a', INTERVAL '1' DAY * id, 'b', id)",
    "missing": "CAST(NULL AS INTERVAL DAY)", "months": "INTERVAL '2' MONTH",
}  # fmt: skip


@pytest.mark.parametrize("rows", ["ALL ROWS PER MATCH", further("ONE ROW PER MATCH")])
def test_types_that_arrow_does_not_tell_apart(exchanged, rows):
    below = f"(SELECT id, id % 2 AS k, {', '.join(f'{sql} AS `{name}`' for name, sql in SHORTER.items())} FROM range(6))"
    measures = ", ".join(f"LAST(`{name}`) AS l_{name}, array_agg(`{name}`) AS a_{name}" for name in SHORTER)
    query = f"SELECT CAST(struct(*) AS STRING) FROM {below} MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES {measures} {rows} PATTERN (A+) DEFINE A AS id >= 0)"
    found = exchanged.sql(query)
    assert "MatchBlocks" in found._jdf.queryExecution().executedPlan().toString()
    with configured(exchanged, {"sparkcep.exchange": "rows"}):
        expected = sorted(exchanged.sql(query).collect())
    assert sorted(found.collect()) == expected and len(expected) == (6 if rows.startswith("ALL") else 2)


@pytest.mark.further
@pytest.mark.parametrize("compiled", ["true", "false"])
def test_strings_outlive_the_batch_that_has_them(exchanged, compiled):
    """The engine's batches are read in place, and their memory is given back. What Spark keeps of them is a copy."""
    exchanged.sql("SELECT concat('name of ', hash(id)) AS s, id FROM range(0, 300000, 1, 2)").createOrReplaceTempView("many_names")
    kept = "max(s), min(s), max_by(s, -id), min_by(s, -id), max(struct(s, id)), max(array(s)), count(DISTINCT s), sum(hash(s)), max(upper(s))"
    with configured(exchanged, {"spark.sql.codegen.wholeStage": compiled}):
        found = exchanged.sql(f"SELECT {kept} FROM {clause('', 'id', 'many_names')}")
        assert found.first() == exchanged.sql(f"SELECT {kept} FROM many_names").first()


def test_a_scalar_subquery_below_is_evaluated(exchanged):
    below = "(SELECT *, `int` - (SELECT max(id) FROM stored_types) AS less FROM stored_types WHERE id > (SELECT avg(id) FROM stored_types))"
    query = f"SELECT id, less, place FROM {clause('PARTITION BY `boolean`', '`date`', below)}"
    assert "MatchBlocks" in plan_of(exchanged, query)
    expected = exchanged.sql(f"SELECT id, less, row_number() OVER (PARTITION BY `boolean` ORDER BY `date`, id) FROM {below}").collect()
    assert sorted(map(str, map(tuple, exchanged.sql(query).collect()))) == sorted(map(str, map(tuple, expected))) and expected


LONG = "SELECT id, repeat(string(id % 10), 500000 + int(id)) AS text, IF(id % 3 = 0, NULL, repeat('b', int(id * 10000))) AS other FROM range(0, 40, 1, 1)"


@pytest.mark.further
@pytest.mark.parametrize("stored", [True, False])
def test_long_values_of_few_rows(exchanged, tmp_path, stored):
    """A row of megabytes: a task's budget is asked before the next 1,000 rows."""
    exchanged.sql(LONG).write.parquet(f"{tmp_path}/long")
    read = f"parquet.`{tmp_path}/long`" if stored else f"({LONG})"
    below = f"(SELECT *, id % 4 AS n, concat(other, 'c', text) AS both FROM {read})"
    values = "id, n, length(text), length(other), place, crc32(text), crc32(other), crc32(both)"
    expected = exchanged.sql(f"SELECT {values} FROM (SELECT *, row_number() OVER (ORDER BY id % 7, id) AS place FROM {below})").collect()
    with configured(exchanged, {"sparkcep.exchange.taskBytes": "1m"}):
        found = exchanged.sql(f"SELECT {values} FROM {clause('PARTITION BY 1', 'id % 7', below)}")
        assert sorted(found.collect(), key=str) == sorted(expected, key=str)
        (blocks,) = (node for _, node in nodes(found._jdf.queryExecution().executedPlan()) if node.nodeName() == "MatchBlocks")
    assert blocks.metrics().apply("blocks").value() >= 10 and any(row["length(other)"] is None for row in expected)


MANY = "SELECT id, id % 3 = 0 AS b, concat('name ', id) AS s, named_struct('a', id, 's', string(id)) AS p FROM range(0, 280000, 1, 2)"
MATCHES = "MATCH_RECOGNIZE (ORDER BY id ALL ROWS PER MATCH PATTERN (A) DEFINE A AS TRUE)"


@pytest.mark.further
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_python_functions_above_read_rows(exchanged, adaptive):
    """Spark's operator of such functions would keep columns of Arrow while the engine's next batch is read into them."""
    exchanged.udf.register("more", udf(lambda value: value + 1, "bigint", useArrow=True))
    exchanged.sql(MANY).createOrReplaceTempView("many_rows")
    with configured(exchanged, {"spark.sql.adaptive.enabled": adaptive}):
        found = exchanged.sql(f"SELECT id, b, s, p, more(id) AS next FROM many_rows {MATCHES}")
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert "ArrowEvalPython" in plan and "MatchBlocks" in plan
        right = "b = (id % 3 = 0) AND s = concat('name ', id) AND p.a = id AND p.s = string(id) AND next = id + 1"
        assert tuple(found.selectExpr("count(*)", f"count_if({right})").first()) == (280000, 280000)


@pytest.mark.further
@pytest.mark.parametrize("compiled", ["true", "false"])
def test_nested_values_of_several_batches(exchanged, compiled):
    """ColumnarToRow closes a batch, and the reader of batches reads the next one into the same vectors."""
    exchanged.sql(MANY).createOrReplaceTempView("many_rows")
    kept = "count(*), sum(hash(p)), sum(hash(b, s)), max(p), max_by(s, p.s)"
    with configured(exchanged, {"spark.sql.codegen.wholeStage": compiled}):
        query = f"SELECT {kept} FROM many_rows {MATCHES}"
        assert "MatchBlocks" in plan_of(exchanged, query)
        assert exchanged.sql(query).first() == exchanged.sql(f"SELECT {kept} FROM many_rows").first()
        assert exchanged.sql(f"SELECT {kept} FROM (SELECT * FROM many_rows {MATCHES}) {MATCHES.replace('BY id', 'BY -id')}").first() == exchanged.sql(query).first()


def test_adaptive_execution_brings_together_what_a_worker_can_hold(exchanged):
    """Spark's own size for a task, 64 MB, is more than the worker can order in memory."""
    coalesce = "spark.sql.adaptive.coalescePartitions"
    settings = {f"{coalesce}.parallelismFirst": "false", f"{coalesce}.minPartitionSize": "1b", "spark.sql.shuffle.partitions": "4"}
    query = f"SELECT * FROM {clause('PARTITION BY id', 'id')}"
    tasks = {}
    for held in ("256m", "8"):
        with configured(exchanged, settings | {"sparkcep.exchange.workerBytes": held}):
            tasks[held] = tasks_after_exchange(exchanged, query)
    assert tasks == {"256m": 1, "8": 4}


@pytest.mark.further
def test_a_hint_below_does_not_split_the_rows_of_a_key(exchanged):
    """Adaptive execution may give the parts of a partition that REBALANCE makes to several tasks."""
    below = "(SELECT /*+ REBALANCE(`int`) */ `int`, `date`, id FROM of_types)"
    with configured(exchanged, {"spark.sql.adaptive.advisoryPartitionSizeInBytes": "1b", "spark.sql.shuffle.partitions": "2"}):
        frame = exchanged.sql(f"SELECT * FROM {clause('PARTITION BY `int`', '`date`', below)}")
        rows = frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    assert "MatchBlocks" in plan and plan.count("Exchange hashpartitioning") == 1
    expected = exchanged.sql(f"SELECT id, row_number() OVER (PARTITION BY `int` ORDER BY `date`, id) FROM {below}").collect()
    assert sorted((row.id, row.place) for row in rows) == sorted(map(tuple, expected)) and len(rows) == 300


def tasks_after_exchange(spark, query: str) -> int:
    """Runs a query with one exchange. Returns how many tasks read it."""
    made = spark.sql(query)
    made.collect()
    read = [node for _, node in nodes(made._jdf.queryExecution().executedPlan()) if node.nodeName() == "AQEShuffleRead"]
    return read[0].partitionSpecs().size() if read else 4


def test_a_worker_gets_a_few_blocks_at_once(exchanged, tmp_path):
    """A batch of all blocks would be as large as the partition: Spark counts them as rows."""

    def watched(batches):
        """Makes the worker note how many blocks its batches have."""
        from sparkcep.engine.arrange import sorted_batches as module

        blocks = getattr(module._blocks, "watched", module._blocks)

        def noting(given):
            for batch in given:
                if tmp_path.exists():
                    (tmp_path / f"{os.getpid()}-{time.monotonic_ns()}").write_text(str(batch.num_rows))
                yield batch

        def own(given):
            return blocks(noting(given))

        own.watched = blocks
        module._blocks = own
        yield from batches

    exchanged.range(0, 8, 1, 8).mapInArrow(watched, "id BIGINT").collect()  # workers are used again
    with configured(exchanged, {"sparkcep.exchange.taskBytes": "1"}):
        exchanged.sql(f"SELECT * FROM {clause('', 'id', '(SELECT r.id FROM range(3000) AS r)')}").collect()
    found = [int(path.read_text()) for path in tmp_path.iterdir()]
    assert sum(found) > 10 and max(found) <= 4


def test_two_clauses_with_the_same_keys_are_exchanged_once(exchanged):
    inner = f"SELECT `string`, `int`, id, place FROM {clause('PARTITION BY `string`', '`int`')}"
    query = f"SELECT * FROM ({inner}) MATCH_RECOGNIZE (PARTITION BY `string` ORDER BY place MEASURES LAST(id) AS l PATTERN (A A))"
    assert plan_of(exchanged, query).count("Exchange") == 1
    exchanged.conf.set("sparkcep.exchange", "rows")
    rows = exchanged.sql(query).collect()
    exchanged.conf.set("sparkcep.exchange", "columns")
    assert sorted(map(str, rows)) == sorted(map(str, exchanged.sql(query).collect())) and rows


def test_rows_are_exchanged_where_blocks_cannot_hold_a_column(exchanged):
    exchanged.sql("CREATE OR REPLACE TEMP VIEW nested AS SELECT id, array(id) AS more, id % 3 AS k, string(id) COLLATE UTF8_LCASE AS name FROM range(20)")
    query = "SELECT {} FROM nested MATCH_RECOGNIZE (PARTITION BY k ORDER BY id ALL ROWS PER MATCH PATTERN (A+))"
    for columns, reason in (("*", "a column of the type array<bigint>"), ("k, id", ""), ("k, name", "a column of the type string collate UTF8_LCASE")):
        plan = plan_of(exchanged, query.format(columns))
        assert ("MatchBlocks" in plan) is (not reason) and ("rows one by one: " + reason in plan) is bool(reason), plan
        assert len(exchanged.sql(query.format(columns)).collect()) == 20


def test_a_constant_among_the_keys_is_left_out(exchanged):
    below = "(SELECT *, 'one' AS name FROM of_types)"
    query = f"SELECT `int`, count(*) AS n, max(place) AS m FROM {clause('PARTITION BY name, `int`', '`float`', below)} GROUP BY `int`"
    plan = plan_of(exchanged, query)
    assert "MatchBlocks" in plan and plan.count("Exchange hashpartitioning") == 1
    rows = exchanged.sql(query).collect()
    assert len(rows) == 6 and all(row.n == row.m for row in rows)


def test_structs_travel_in_blocks(exchanged):
    """Structs of all types, NULL ones and NULL fields, nested, with two fields of one name; from rows and from batches."""
    fields = ", ".join(f"'{name}', `{name}`" for name in NAMES)
    whole = f"IF(id % 5 = 0, NULL, named_struct({fields}, 'of', IF(id % 3 = 0, NULL, named_struct('a', id, 'A', `string`, 'a', `int`)), 'n', 1))"
    for table in ("of_types", "stored_types"):
        below = f"(SELECT id, `int` AS k, {whole} AS s FROM {table})"
        query = f"SELECT k, id, s FROM {below} MATCH_RECOGNIZE (PARTITION BY k ORDER BY id, s.`string`, s.`double`, s.`decimal` ALL ROWS PER MATCH PATTERN (A+))"
        assert "MatchBlocks" in plan_of(exchanged, query)
        assert sorted(map(str, exchanged.sql(query).collect())) == sorted(map(str, exchanged.sql(f"SELECT k, id, s FROM {below}").collect()))
        assert exchanged.sql(query).schema["s"].dataType == exchanged.sql(f"SELECT s FROM {below}").schema["s"].dataType


@pytest.mark.further
@pytest.mark.parametrize("way", ["columns", "rows"])
@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
def test_strings_with_offsets_of_64_bits(exchanged, way, rows):
    """The setting that the error of more than 2 GiB names changes the types of strings in Arrow, but not the rows."""
    below = "(SELECT id, id % 3 AS k, concat('name ', id) AS s, CAST(string(id) AS BINARY) AS b, struct(string(id) AS x) AS st, array(string(id)) AS l FROM range(40))"
    query = f"""SELECT * FROM {below} MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES LAST(s) AS last_s, min(s) AS mi, max(st) AS ma, array_agg(s) AS g,
      array_agg(CLASSIFIER()) AS c, FIRST(l) AS fl, max(b) AS mb {rows} PATTERN (A B+) DEFINE B AS s > PREV(s) OR st > PREV(st) OR B.b = A.b OR CLASSIFIER() = 'x')"""
    found = []
    for large in ("false", "true"):
        with configured(exchanged, {"spark.sql.execution.arrow.useLargeVarTypes": large, "sparkcep.exchange": way}):
            found.append(sorted(map(str, exchanged.sql(query).collect())))
    assert found[0] == found[1] and len(found[0]) >= 6


def test_measures_that_may_fail_travel_in_blocks(exchanged):
    """The operands of a sum that fails for a row are in a struct, which is NULL for other rows."""
    exchanged.sql("CREATE OR REPLACE TEMP VIEW divided AS SELECT id, id % 3 AS k, IF(id = 17, 0, 1) AS d FROM range(30)")
    query = "SELECT k, s FROM divided MATCH_RECOGNIZE (PARTITION BY k ORDER BY id MEASURES sum(id / d) AS s PATTERN (^ A{{{}}}))"
    assert "MatchBlocks" in plan_of(exchanged, query.format(5))
    assert sorted(map(tuple, exchanged.sql(query.format(5)).collect())) == [(0, 30.0), (1, 35.0), (2, 40.0)]
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        exchanged.sql(query.format(6)).collect()


@pytest.mark.further
def test_a_cached_input_and_a_join_below(exchanged):
    exchanged.sql("CACHE TABLE of_types")
    try:
        below = "(SELECT a.* FROM of_types a JOIN (SELECT DISTINCT `int` AS other FROM of_types) b ON a.`int` = b.other)"
        query = f"SELECT `int`, count(*) AS n, max(place) AS m FROM {clause('PARTITION BY `int`', '`float`').replace('of_types', below, 1)} GROUP BY `int`"
        rows = exchanged.sql(query).collect()
        assert all(row.n == row.m for row in rows) and sum(row.n for row in rows) == exchanged.sql("SELECT * FROM of_types WHERE `int` IS NOT NULL").count()
    finally:
        exchanged.sql("UNCACHE TABLE of_types")


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_blocks_have_no_checksums(exchanged, adaptive):
    """Two runs of a task may make other blocks of the same rows. The rows of an exchange below have Spark's checksums."""
    with configured(exchanged, {"spark.sql.adaptive.enabled": adaptive}):
        made = exchanged.sql(f"SELECT `int`, place FROM {clause('PARTITION BY `int`', 'id', '(SELECT id, max(`int`) AS `int` FROM of_types GROUP BY id)')}")
        made.collect()
        found = [node for _, node in nodes(made._jdf.queryExecution().executedPlan()) if node.nodeName() == "Exchange"]
        checked = {node.getClass().getSimpleName(): len(node.shuffleDependency().rowBasedChecksums()) > 0 for node in found}
    assert checked == {"BlockShuffle": False, "ShuffleExchangeExec": True}


def test_wide_rows_are_exchanged_one_by_one(exchanged):
    columns = ", ".join(f"id + {i} AS c{i}" for i in range(80))
    exchanged.sql(f"CREATE OR REPLACE TEMP VIEW wide AS SELECT id, {columns} FROM range(20)")
    for shown, blocks in (("*", False), ("id, c0, c63", True)):
        query = f"SELECT {shown} FROM wide MATCH_RECOGNIZE (PARTITION BY c1 ORDER BY id ALL ROWS PER MATCH PATTERN (A+))"
        assert ("MatchBlocks" in plan_of(exchanged, query)) is blocks
        assert len(exchanged.sql(query).collect()) == 20


def test_explain_says_why_rows_travel_one_by_one(exchanged):
    query = f"SELECT * FROM {clause('PARTITION BY `string`', '`int`')}"
    exchanged.conf.set("sparkcep.exchange", "rows")
    try:
        assert "rows one by one: SET sparkcep.exchange = columns" in plan_of(exchanged, query)
    finally:
        exchanged.conf.set("sparkcep.exchange", "columns")
    exchanged.sql("CREATE TABLE IF NOT EXISTS in_buckets USING parquet CLUSTERED BY (k) SORTED BY (k, id) INTO 2 BUCKETS AS SELECT id, id % 3 AS k FROM range(20)")
    try:
        found = exchanged.sql("SELECT * FROM in_buckets MATCH_RECOGNIZE (PARTITION BY k ORDER BY id ALL ROWS PER MATCH PATTERN (A+))")
        assert "rows one by one: no exchange is needed" in found._jdf.queryExecution().executedPlan().toString() and len(found.collect()) == 20
    finally:
        exchanged.sql("DROP TABLE in_buckets")


def test_columns_named_like_those_of_blocks(exchanged):
    exchanged.sql("CREATE OR REPLACE TEMP VIEW named AS SELECT CAST(id % 3 AS INT) AS block_partition, CAST(string(id) AS BINARY) AS block FROM range(20)")
    query = "SELECT * FROM named MATCH_RECOGNIZE (PARTITION BY block_partition ORDER BY block ALL ROWS PER MATCH PATTERN (A+))"
    expected = sorted(map(tuple, exchanged.table("named").collect()))
    for way in ("columns", "rows"):
        exchanged.conf.set("sparkcep.exchange", way)
        assert ("MatchBlocks" in plan_of(exchanged, query)) is (way == "columns")
        assert sorted(map(tuple, exchanged.sql(query).collect())) == expected
    exchanged.conf.set("sparkcep.exchange", "columns")


def test_metrics(exchanged):
    frame = exchanged.sql(f"SELECT * FROM {clause('PARTITION BY `int`', '`float`')}")
    frame.collect()
    (blocks,) = (node for _, node in nodes(frame._jdf.queryExecution().executedPlan()) if node.nodeName() == "MatchBlocks")
    found = {key: blocks.metrics().apply(key).value() for key in ("rowsInBlocks", "blocks", "bytes")}
    assert found["rowsInBlocks"] == 300 and 1 <= found["blocks"] <= 6 and found["bytes"] > 300 * 60


def test_a_report_counts_rows(exchanged):
    page = sparkcep.report(exchanged, f"SELECT * FROM {clause('PARTITION BY `int`', '`float`')}")
    text = re.sub(r"<[^>]*>", " ", page)
    assert re.search(r"rows that reach the engine\D*300\b", text) and re.search(r"blocks of columns that were exchanged\D*[1-6]\b", text)


def test_sizes_and_words_are_read_as_in_python(exchanged):
    query = f"SELECT id FROM {clause('PARTITION BY `int`', '`float`')}"
    for way, size in (("COLUMNS", "64 K"), ("columns", "1mb"), ("columns", "5000")):
        exchanged.conf.set("sparkcep.exchange", way)
        exchanged.conf.set("sparkcep.exchange.taskBytes", size)
        assert "MatchBlocks" in plan_of(exchanged, query)
    exchanged.conf.set("sparkcep.exchange.taskBytes", "many")
    with pytest.raises(PySparkException, match="sparkcep.exchange.taskBytes must be a number"):
        exchanged.sql(query)
    exchanged.conf.unset("sparkcep.exchange.taskBytes")
