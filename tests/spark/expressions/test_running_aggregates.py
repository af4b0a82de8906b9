"""Every aggregate of Spark under ALL ROWS PER MATCH, RUNNING and FINAL, over random matches.

The twin finds the matches by a regular expression and aggregates their rows by GROUP BY.
"""

from __future__ import annotations

import math
import random
import re

import pytest

from sparkcep.plan.plan import Plan
from sparkcep.settings import Settings
from sparkcep.sql.rewrite.rewrite import rewrite, rewrite_all
from sparkcep.sql.rewrite.window_aggregates import refused
from tests.selection import further, slow
from tests.spark.exec.planning_differential import configured
from tests.spark.expressions.aggregate_calls import CALLS, NOT_HERE, SKETCHES, parts

# pattern, the same as a regular expression over the values of c, what follows ALL ROWS PER MATCH
FORMS = [
    ("(A+ B)", "a+b", "", "PAST LAST ROW"),
    ("(A+ {- B -} A*)", "a+ba*", "", "PAST LAST ROW"),
    ("((A | B)+)", "[ab]+", "", "TO NEXT ROW"),
    ("(A* B?)", "a*b?", "SHOW EMPTY MATCHES", "PAST LAST ROW"),
    ("(A B+ A?)", "ab+a?", "WITH UNMATCHED ROWS", "PAST LAST ROW"),
    ("({- A -} A* {- B -})", "a+b", "", "TO NEXT ROW"),
]
KEYS = 3


@pytest.fixture(scope="module")
def functions(spark) -> set[str]:
    """The names of this Spark's functions. Spark 4.1 has fewer than 4.3."""
    return {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if row[0][0].isalpha()}


def test_each_aggregate_of_sparks_is_here(spark, functions):
    session = spark._jsparkSession.sessionState()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    aggregates = {name for name in functions if session.catalog().lookupFunctionInfo(identifier(name)).getGroup() == "agg_funcs"}
    assert aggregates - NOT_HERE == set(CALLS) & functions and len(aggregates) > 60
    assert spark.version < "4.3" or set(CALLS) <= functions


def rows_of(draw: random.Random) -> list[tuple]:
    """(g, id, c, x, k, y, s, b, z, l)"""
    rows = []
    for g in range(KEYS):
        for i in range(draw.randint(5, 14)):
            values = (
                draw.randint(-3, 5), draw.randint(0, 4), draw.choice([0.5, -1.25, 3.0, 2.5]), draw.choice(["p", "q", "rr", ""]), draw.random() < 0.6,
                bytes([draw.randint(0, 255)]), [draw.randint(0, 3) for _ in range(draw.randint(0, 3))],
            )
            rows.append((g, 100 * g + i, draw.choice("aaabbx"), *(None if draw.random() < 0.2 else value for value in values)))
    return rows


def matches_of(rows: list[tuple], regex: str, skip: str, shown: str) -> list[tuple]:
    """(row of the output, match number, rows of the match up to it, all its rows), where rows of a match are (row, variable)."""
    out = []
    for g in range(KEYS):
        own = [row for row in rows if row[0] == g]
        word, at, number = "".join(row[2] for row in own), 0, 0
        while at < len(own):
            found = re.compile(regex).match(word, at)
            if found is None or (found.end() == at and not shown):
                out += [(own[at], None, [], [])] if shown == "WITH UNMATCHED ROWS" else []
                at += 1
                continue
            number += 1
            labelled = [(row, row[2].upper()) for row in own[at : found.end()]]
            out += [(row, number, labelled[: i + 1], labelled) for i, (row, _) in enumerate(labelled)] or [(own[at], number, [], [])]
            at = max(at + 1, found.end() if skip == "PAST LAST ROW" else 0)
    return out


def hidden(pattern: str, match: list[tuple], upto: int) -> bool:
    """Whether the row is excluded from the output."""
    if pattern == "(A+ {- B -} A*)":
        return match[upto - 1][1] == "B"
    return pattern.startswith("({- A") and upto in (1, len(match))


def alike(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return a == b


def measured(draw: random.Random, functions: set[str]) -> list[tuple[str, str, str]]:
    """(measure, the same as an aggregate of Spark over rows of the twin, the condition that is true of these rows)"""
    found = []
    for call in (call for name, calls in CALLS.items() if name in functions for call in calls):
        variables = draw.choice(["", "", "A", "B", "U"]) if "CLASSIFIER" not in call else ""
        final, keep = draw.choice(["RUNNING ", "FINAL ", ""]), draw.choice(["", "", "x > 0"]) if "NULLS" not in call else ""
        head, aggregate, tail = parts(call)
        dot = f"{variables}." if variables else ""
        own = f"{head}{final}{aggregate}{f' FILTER (WHERE {dot}{keep})' if keep else ''}{tail}".replace("{A}", dot)
        counts = {"": "v IS NOT NULL", "U": "v IS NOT NULL"}.get(variables, f"v = '{variables}'")
        counts += ("" if final == "FINAL " else " AND seen") + (f" AND {keep}" if keep else "")
        plain = aggregate in ("listagg({A}s, ',')", "string_agg({A}s)")  # in the order of the rows
        twin = f"{head}{aggregate}{' WITHIN GROUP (ORDER BY n)' if plain else ''}{tail}".replace("{A}", "")
        found.append((own, twin.replace("CLASSIFIER()", "v").replace("MATCH_NUMBER()", "m"), counts))
    return found


# who computes the aggregates, by a setting: the JVM extension, or window functions, as without it
ROUTES = {"extension": "true", "windows": "false"}


def as_array(call: str) -> bool:
    """Whether no window function computes the aggregate of a clause's measure."""
    whole = re.search(r"\b(median|percentile_cont|percentile_disc|listagg|string_agg)\(", call)
    return "listagg(DISTINCT" in call or (whole is not None and "FINAL" not in call)


@pytest.mark.parametrize("seed", [further(seed) if seed == 1 else slow(seed) for seed in range(48)])
def test_values_are_those_of_the_rows_so_far_and_of_the_match(spark, functions, seed):
    draw = random.Random(seed)
    calls = measured(draw, functions)[seed % 8 :: 8]  # an eighth of them takes seconds
    draw.shuffle(calls)
    calls.sort(key=lambda call: as_array(call[0]))
    rows, compared = rows_of(draw), 0
    columns = "g INT, id BIGINT, c STRING, x BIGINT, k INT, y DOUBLE, s STRING, b BOOLEAN, z BINARY, l ARRAY<INT>"
    spark.createDataFrame(rows, columns).createOrReplaceTempView("given")
    sketches = "".join(f", {text} AS {name}" for name, (text, _) in SKETCHES.items() if any(name in own for own, _, _ in calls))
    spark.sql(f"SELECT * FROM given JOIN (SELECT id{sketches} FROM given GROUP BY id) USING (id)").cache().createOrReplaceTempView("running")
    pattern, regex, shown, skip = FORMS[seed % len(FORMS)] if seed < len(FORMS) else draw.choice(FORMS)
    out = [row for row in matches_of(rows, regex, skip, shown) if not (row[2] and hidden(pattern, row[3], len(row[2])))]
    members = [
        (i, number, n, row[1], label, n < len(before))
        for i, (_, number, before, match) in enumerate(out)
        for n, (row, label) in enumerate(match)
    ]
    members += [(i, number, -1, None, None, None) for i, (_, number, _, match) in enumerate(out) if not match]
    spark.createDataFrame(members, "o INT, m INT, n INT, id BIGINT, v STRING, seen BOOLEAN").createOrReplaceTempView("members")
    spark.sql("SELECT * FROM members LEFT JOIN running USING (id) ORDER BY o, n").coalesce(1).sortWithinPartitions("o", "n").cache().createOrReplaceTempView("twin")
    theirs: dict[int, dict] = {o: {} for o in range(len(out))}
    for query in queried(calls):
        found = {row.o: row.asDict() for row in spark.sql(query).collect()}
        for o, values in theirs.items():
            values |= found.get(o) or found[None]
    for route, setting in ROUTES.items():
        spark.conf.set("sparkcep.mapInArrow", setting)
        for o, values in enumerate(answers(spark, calls, (pattern, shown, skip), out)):
            for i, (own, _, _) in enumerate(calls):
                wanted = None if out[o][1] is None else theirs[o][f"q{i}"]
                assert alike(values[f"q{i}"], wanted), (route, own, out[o][0][1], out[o][1], values[f"q{i}"], wanted)
                compared += 1
    spark.conf.unset("sparkcep.mapInArrow")
    assert compared > 100


def answers(spark, calls: list[tuple[str, str, str]], clause: tuple[str, str, str], out: list[tuple]) -> list[dict]:
    """The measures of the clause in each output row. Those that need arrays have a query of their own, since the others of a clause
    would follow them."""
    pattern, shown, skip = clause
    got: dict[tuple, dict] = {}
    first_array = next((i for i, call in enumerate(calls) if as_array(call[0])), len(calls))
    for begin, end in ((0, first_array), (first_array, len(calls))):
        measures = ", ".join(f"{own} AS q{i}" for i, (own, _, _) in enumerate(calls[begin:end], begin))
        query = f"""SELECT * FROM running MATCH_RECOGNIZE (PARTITION BY g ORDER BY id MEASURES {", ".join(filter(None, ["MATCH_NUMBER() AS mn", measures]))}
            ALL ROWS PER MATCH {shown} AFTER MATCH SKIP {skip} PATTERN {pattern} SUBSET U = (A, B) DEFINE A AS c = 'a', B AS c = 'b')"""
        assert begin or refused(made_plan(query)) == []
        found = spark.sql(query).collect()
        assert len(found) == len(out)
        for row in found:
            got.setdefault((row.id, row.mn), {}).update(row.asDict())
    assert len(got) == len(out)
    return [got[row[1], number] for row, number, _, _ in out]


def made_plan(query: str) -> Plan:
    return rewrite_all(query)[1][0].plan


def queried(calls: list[tuple[str, str, str]]) -> list[str]:
    """The queries of the twin: one of all calls but those with DISTINCT, which are alone, since Spark expands the rows for them.

    The row without ``o``, if there is one, is of output rows for which no row counts."""
    plain, queries = [], []
    for i, (_, text, condition) in enumerate(calls):
        if "DISTINCT" in text:
            queries.append(f"SELECT o, {text} AS q{i} FROM twin WHERE {condition} GROUP BY o UNION ALL SELECT NULL, {text} FROM twin WHERE false")
        else:
            head, aggregate, tail = parts(text)
            plain.append(f"{head}{aggregate} FILTER (WHERE {condition}){tail} AS q{i}")
    return [f"SELECT o, {', '.join(plain)} FROM twin GROUP BY o", *queries]


def test_percentiles_and_distinct_values_of_neighbouring_matches(spark):
    """The extension's values of a match do not reach into the next match of its task."""
    values, parts = {g: [5, 1, 4, 1, 3, 2, 5, 2, 9, 4, 8][g:] for g in range(6)}, (0.0, 0.25, 0.5, 0.9, 1.0)
    spark.createDataFrame([(g, i, x) for g, own in values.items() for i, x in enumerate(own)], "g INT, id INT, x BIGINT").createOrReplaceTempView("neighbours")

    def at(ordered: list[int], part: float) -> float:
        place = part * (len(ordered) - 1)
        low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
        return low + (high - low) * (place - math.floor(place))

    wanted = {
        (g, i): ([at(sorted(own[: i + 1]), part) for part in parts], len({*own[: i + 1]}), sum({*own})) for g, own in values.items() for i in range(len(own))
    }
    query = f"""SELECT g, id, p, d, f FROM neighbours MATCH_RECOGNIZE (PARTITION BY g ORDER BY id
        MEASURES percentile(x, array{parts}) AS p, count(DISTINCT x) AS d, FINAL sum(DISTINCT x) AS f ALL ROWS PER MATCH PATTERN (A+))"""
    for route, setting in ROUTES.items():
        spark.conf.set("sparkcep.mapInArrow", setting)
        found = {(row.g, row.id): (row.p, row.d, row.f) for row in spark.sql(query).collect()}
        spark.conf.unset("sparkcep.mapInArrow")
        assert found.keys() == wanted.keys() and all(alike(found[row], wanted[row]) for row in wanted), (route, found)


MIXED = """SELECT * FROM plain MATCH_RECOGNIZE (PARTITION BY g ORDER BY id
  MEASURES stddev(x) AS s, FINAL median(x) AS m, count(DISTINCT x) AS d, array_agg(DISTINCT A.x) AS l, listagg(B.c) AS t, MATCH_NUMBER() AS n,
    FINAL max_by(c, x) FILTER (WHERE x > 1) AS b, mode() WITHIN GROUP (ORDER BY x) AS o, sum(DISTINCT x) AS u, CASE WHEN x > 2 THEN FINAL skewness(x) END AS k
  ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B) DEFINE A AS c = 'a', B AS c = 'b')"""
FORMS_OF_PLANS = [
    "SELECT * FROM ({})",
    "SELECT s FROM ({})",
    "SELECT d, l FROM ({})",
    "SELECT count(*) FROM ({})",
    "SELECT id, m, b FROM ({}) WHERE s > 1 OR d = 1",
    "SELECT id, n, u FROM ({}) WHERE g = 1 AND n > 1",
    "SELECT t.id, n, o, k FROM ({}) t JOIN plain USING (id) WHERE plain.x > 1",
    "SELECT g, max(s), sum(d), max(k) FROM ({}) GROUP BY g",
    "SELECT id, n, s FROM ({}) ORDER BY s DESC NULLS LAST, id, n LIMIT 7",
    "SELECT id, lag(d) OVER (PARTITION BY g, n ORDER BY id) AS before FROM ({})",
    "WITH w AS ({}) SELECT a.id, a.s, b.d FROM w a JOIN w b USING (id, n)",
    "WITH w AS ({}) SELECT a.id FROM w a JOIN w b USING (id, n)",
    "WITH w AS ({}) SELECT a.id, b.d FROM w a JOIN w b USING (id, n)",
]


@pytest.fixture(scope="module")
def plain(spark):
    spark.sql("SELECT id, id % 3 AS g, pmod(hash(id), 5) AS x, substr('aaab', pmod(hash(id), 4) + 1, 1) AS c FROM range(60)").createOrReplaceTempView("plain")


def answered(spark, form: str, settings: dict[str, str]) -> list[str]:
    with configured(spark, settings):
        return sorted(str(row) for row in spark.sql(form.format(MIXED)).collect())


@pytest.mark.codegen
@pytest.mark.parametrize("form", [further(form) if i % 8 == 0 else slow(form) for i, form in enumerate(FORMS_OF_PLANS)])
def test_any_plan_gives_the_rows_that_arrays_give(spark, plain, form):
    """Without the operator of mapInArrow each output row has the array of its match's rows."""
    arrays = answered(spark, form, {"sparkcep.mapInArrow": "false"})
    assert arrays and arrays == answered(spark, form, {})
    assert arrays == answered(spark, form, {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"})


def test_one_aggregate_that_is_no_window_function_leaves_all_to_arrays():
    clause = "EXPLAIN SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {} ALL ROWS PER MATCH PATTERN (A+))"
    windows = rewrite(clause.format("stddev(x) AS s, count(DISTINCT x) AS d, FINAL median(x) AS m"), settings=Settings(windows=True))
    assert '"stepwise":true' in windows and "each row of a match once" in windows and "without the JVM extension" not in windows
    arrays = rewrite(clause.format("stddev(x) AS s, median(x) AS m"), settings=Settings(windows=True))
    assert '"stepwise":true' not in arrays and "because of median(x) (line 1, column 79)" in arrays
    slow = rewrite(clause.format("percentile(x, 0.5) AS p"), settings=Settings(windows=True))
    assert '"stepwise":true' in slow and "O(values so far) for each output row: percentile(x, 0.5) (line 1, column" in slow


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param("SHOW UNFINISHED MATCHES PATTERN (A B) DEFINE B AS x > 1", id="unfinished matches lack numbers"),
        pytest.param(
            "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 100 DEFINE B AS B.x = A.x", id="each x has its own numbers"
        ),
    ],
)
def test_matches_whose_numbers_do_not_tell_them_apart_are_left_to_arrays(rest):
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES FINAL median(x) AS m, RUNNING stddev(x) AS s ALL ROWS PER MATCH {rest})"
    assert '"stepwise":true' not in rewrite(text, settings=Settings(windows=True))


def test_an_array_of_a_whole_match_is_made_once():
    clause = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {} AS l ALL ROWS PER MATCH PATTERN (A+))"
    whole, running = (rewrite(clause.format(f"{which} array_agg(x)"), settings=Settings(windows=True)) for which in ("FINAL", "RUNNING"))
    assert '"stepwise":true' in whole and '"function":"list"' not in whole
    assert '"function":"list"' in running


def test_an_array_is_sent_once(spark, plain):
    plan = spark.sql(MIXED)._jdf.queryExecution().optimizedPlan().treeString()
    assert '"stepwise":true' in plan
    assert "posexplode" not in plan


def test_rows_below_the_engine_have_each_column_once(spark, plain):
    spark.sql("SELECT * FROM plain").cache().createOrReplaceTempView("stored")
    plan = spark.sql("SELECT * FROM stored MATCH_RECOGNIZE (ORDER BY id MEASURES stddev(x) AS s, FINAL bit_and(x) AS b ALL ROWS PER MATCH PATTERN (A+))")
    above, engine, below = plan._jdf.queryExecution().sparkPlan().toString().partition("MapInArrow")
    assert engine and above.count("OVER ROWS IN") == 2
    below = below.partition("InMemoryRelation")[0]
    assert "Sort" in below and "Project" not in below and "__" not in below.partition("\n")[2]


@pytest.mark.further
def test_a_plan_is_analysed_again(spark, plain, tmp_path):
    spark.sql(MIXED).write.parquet(str(tmp_path / "rows"))
    assert sorted(map(str, spark.read.parquet(str(tmp_path / "rows")).collect())) == answered(spark, "{}", {})
    assert spark.sql(MIXED).cache().where("s > 1").count() == spark.sql(MIXED).where("s > 1").count()


def test_one_value_fails_as_spark_fails(spark):
    query = """SELECT * FROM VALUES (1, 9223372036854775807L), (2, 1L) AS v(i, x)
      MATCH_RECOGNIZE (ORDER BY i MEASURES {} AS s ALL ROWS PER MATCH PATTERN (A+))"""
    assert [row.s for row in spark.sql(query.format("try_sum(x)")).collect()] == [9223372036854775807, None]
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        spark.sql(query.format("sum(DISTINCT x)")).collect()
