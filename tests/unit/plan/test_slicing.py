"""Whether partitions may be cut into slices, by which text, and what EXPLAIN says; results are compared in tests/property and
tests/spark."""

from __future__ import annotations

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.draw.explain import explain
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.plan.facts import least, room
from sparkcep.plan.prune.slicing import undivided
from sparkcep.plan.records import Repeat, Within
from sparkcep.settings import ALWAYS, Settings
from sparkcep.sql.prefilter.cost import Sample, Sampled, Share
from sparkcep.sql.prefilter.slices import UNKNOWN, WINDOWS, Slices, cut, owned, slices_of
from sparkcep.sql.rewrite.rewrite import rewrite, rewrite_all

ON, OFF = Settings(slices=ALWAYS), Settings(slices=False)


def clause(pattern="A B", define="A AS x = 1", measures="A.x AS a", more="", head="PARTITION BY k ORDER BY o", skip="AFTER MATCH SKIP TO NEXT ROW",
           window="WINDOW 5", select=""):
    return f"{head} MEASURES {measures} {skip} {select} {window} {more} PATTERN ({pattern}) DEFINE {define}"


ANY = "EVENT SELECTION SKIP TILL ANY MATCH"
TOP = f"{ANY} {{}} PREF MAX (A.x) TOP 2{{}}"
BEHIND = "a row outside the match"
REFUSED = {
    "WINDOW counts rows": clause(window="WINDOW 5 ROWS"),
    "depends on the previous match": clause(skip="AFTER MATCH SKIP PAST LAST ROW"),
    "AFTER MATCH depends": clause(skip=""),
    "with SKIP TO NEXT ROW": clause(skip="AFTER MATCH SKIP TO LAST B"),
    "each start row": clause(skip=f"AFTER MATCH SKIP PAST LAST ROW {ANY}"),
    "an unmatched row": clause(measures="A.x AS a ALL ROWS PER MATCH WITH UNMATCHED ROWS"),
    "empty matches are returned": clause("A*"),
    "the pattern matches the empty sequence": clause("A? B*", measures="A.x AS a ALL ROWS PER MATCH SHOW EMPTY MATCHES"),
    "MATCH_COUNT() and MATCH_GRAPH()": clause(measures="MATCH_COUNT() AS n", skip=ANY),
    "group matches": clause(measures="MATCH_GRAPH() AS n", skip=ANY),
    "proxies and bundles": clause(more="APPROX 1 PROXY MATCHES", skip=""),
    "chosen among matches": clause(more="APPROX 1 MATCH BUNDLES", skip="", measures="BUNDLE_SIZE() AS n"),
    "before it are missing": clause("A ~C B", more="APPROX 1 ALL MATCHES", skip=""),
    "PREV or NEXT in the condition": clause(more="APPROX 1 ALL MATCHES", skip="", define="B AS x > PREV(x)"),
    "^ and $": clause("^ A B"),
    "first and last row": clause("A B $"),
    "~ at the start": clause("~C A B", skip=ANY, define="A AS x = 1, C AS x = 2"),
    "reads rows before the match": clause("A & (~C B)", skip=ANY, define="A AS x = 1, C AS x = 2"),
    "MATCH_NUMBER() counts": clause(measures="MATCH_NUMBER() AS n"),
    "counts the matches": clause(define="B AS MATCH_NUMBER() > 2"),
    "matches of the partition": clause(measures="1 + MATCH_NUMBER() AS n ALL ROWS PER MATCH"),
    "MATCH_NUMBER() counts the matches of the partition": clause(measures="max(x + MATCH_NUMBER()) AS n ALL ROWS PER MATCH"),
    "two random numbers": clause(define="A AS rand(1) < 0.5"),
    "TOP ranks the matches of whole partitions": clause(skip="", window=TOP.format("WINDOW 5", "")),
    "ranks the matches of all windows": clause(skip="", window=TOP.format("WINDOW 5 SLIDE 5", " OVERALL")),
    "ORDER BY descends": clause(skip="", window=TOP.format("WINDOW 5 SLIDE 5", ""), head="PARTITION BY k ORDER BY o DESC"),
    "several rows in DEFINE": clause(define="B AS concat(x, PREV(x)) = 'ab'"),
    f"in the condition of A may read {BEHIND}": clause(define="A AS x > PREV(x)"),
    f"in the condition of B may read {BEHIND}": clause(define="B AS x > PREV(x, 2)"),
    "in the condition of B may": clause("A? B", define="B AS x > PREV(x)"),
    "of B may read": clause("(A | B) B", define="B AS x > PREV(x)"),
    "PREV or NEXT in the condition of B": clause(define="B AS x > NEXT(x)"),
    "or NEXT in the condition of B": clause(define="B AS x > PREV(FIRST(A.x))"),
    "NEXT in the condition of C": clause("A B ~C", skip=ANY, define="C AS x > NEXT(x)"),
    "PREV or NEXT in a measure": clause(measures="NEXT(LAST(B.x)) AS n"),
    "in a measure may read": clause(measures="PREV(A.x) AS n"),
    "a measure may read": clause("PERMUTE(A, B)", measures="PREV(B.x) AS n"),
}
CUT = [
    clause(),
    clause(head="ORDER BY o DESC NULLS LAST, x"),
    clause(skip=ANY),
    clause("A B+ C+", define="B AS x < PREV(x), C AS x > PREV(x, 2)", measures="PREV(LAST(C.x), 2) AS p, NEXT(A.x, 2) AS n"),
    clause("A ~C B", skip=ANY, define="C AS x > PREV(x) AND x < NEXT(x)"),
    clause("A B ~C", skip=ANY, define="C AS x = 2"),
    clause("A* B*", measures="A.x AS a ALL ROWS PER MATCH OMIT EMPTY MATCHES"),
    clause(measures="1 AS one", head="ORDER BY o"),  # the engine counts matches, and nobody reads it
    clause(skip="", window=f"{ANY} WINDOW 5 PREF MAX (A.x)"),
    clause(measures="MATCH_NUMBER() AS rank", skip="", window=TOP.format("WINDOW INTERVAL 5 DAYS SLIDE INTERVAL 2 DAYS", "")),
    clause(more="APPROX 1 ALL MATCHES", skip=""),
    clause("(A B) WITHIN 3 C", define="C AS x > SUM(B.x)"),
]


def plan(text, settings=ON):
    return make_plan(parse_clause(text), settings=settings)


def told(text, settings):
    lines = explain(f"SELECT * FROM t MATCH_RECOGNIZE ({text})", settings=settings).splitlines()
    return [line for line in lines if "cut into slices" in line]


@pytest.mark.parametrize("reason", REFUSED)
def test_explain_tells_why_not(reason):
    text = REFUSED[reason]
    (line,) = told(text, ON)
    assert line.startswith("partitions are not cut into slices of o: ") and reason in line
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({text})"
    assert rewrite(sql, settings=ON) == rewrite(sql, settings=OFF)


@pytest.mark.parametrize("text", CUT)
def test_cut(text):
    assert undivided(plan(text)) == ""
    (line,) = told(text, ON)
    assert "cut into slices of o, " in line and line.endswith("; sparkcep.slices is always")


def test_where_no_session_can_be_asked():
    assert told(clause(), Settings()) == [
        "partitions are not cut into slices of o: its table cannot be sampled without a session, as in spark.sql"
    ]
    (line,) = told(clause(head="ORDER BY o"), Settings())
    assert line == (
        "the input cut into slices of o, 16 windows wide, a window of the next slice shipped twice; a match belongs to the slice of its first row; "
        "the clause lacks PARTITION BY"
    )
    assert told(clause(head="ORDER BY o"), OFF) == [] == told(clause(window=""), ON)
    named = "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t MATCH_RECOGNIZE ({}))"
    assert "inner WITH" in rewrite_all(named.format(clause()))[1][0].slicing.note


def test_the_filter_by_a_second_read_is_independent():
    for filtered in (True, False, ALWAYS):
        sql = rewrite(f"SELECT * FROM t MATCH_RECOGNIZE ({clause()})", settings=Settings(prefilter=filtered, slices=ALWAYS))
        assert "LATERAL VIEW posexplode" in sql and ("LEFT SEMI JOIN" in sql) is (filtered == ALWAYS)
        assert sql.find("LEFT SEMI JOIN") < sql.find("LATERAL VIEW")


def test_least_rows_and_room():
    a, b, c, d = (("var", v) for v in range(4))
    v_shape = ("cat", a, Repeat("repeat", b, 1, None, True), Repeat("repeat", c, 2, 5, True))
    assert least(v_shape) == 4 and room(v_shape, 3) == [(0, 3), (1, 2), (2, 0)]
    optional = ("cat", Repeat("repeat", a, 0, 1, True), ("alt", b, ("cat", c, d)), ("exclude", a))
    assert least(optional) == 2 and room(optional, 4) == [(0, 0), (0, 1), (0, 2), (1, 1)]
    assert room(("cat", a, ("permute", b, c), d), 4) == [(0, 3), (1, 1), (1, 1), (3, 0)]
    assert room(("cat", a, ("and", b, ("cat", c, d)), ("not", 0)), 4) == [(0, 0), (0, 0), (0, 1), (1, 0)]
    assert room(("cat", a, Within("within", ("cat", b, ("not", 2)), 1), d), 4) == [(0, 2), (1, 1), (2, 1), (2, 0)]
    assert least(("and", a, ("cat", b, c))) == 2 and least(("empty",)) == 0 == least(("start",))


def test_texts():
    found = slices_of(plan(clause()), "int")
    assert isinstance(found, Slices) and (found.width, found.size, found.reach) == (6, 6 * WINDOWS, 6) and owned(found) == "__own = 0"
    assert slices_of(plan(clause()), UNKNOWN) == found == slices_of(plan(clause()), "decimal(10,2)")
    assert slices_of(plan(clause(window="WINDOW 0.25")), "double").width == 2
    down = slices_of(plan(clause(head="ORDER BY o DESC")), "int")
    assert down.place == f"~({found.place})"
    times = slices_of(plan(clause(window="WINDOW INTERVAL '10' MINUTE")), "timestamp_ntz")
    assert times.width == 600_000_000 and "typeof({0}) = 'timestamp'" in times.place
    sliding = slices_of(plan(clause(skip="", window=TOP.format("WINDOW 5 SLIDE 5", ""))), "int", windows=1)
    assert sliding.size == sliding.reach == 12 and sliding.start in owned(sliding)
    engines = cut(plan(clause()), found)
    assert engines.keys == ("__p0", "__slice") and engines.leaves[-1][0] == "__own"


@pytest.mark.parametrize(
    ("window", "order_type", "reason"),
    [
        ("WINDOW 5", "timestamp", "WINDOW 5 does not measure an order key of timestamp"),
        ("WINDOW 5", "string", "does not measure"),
        ("WINDOW INTERVAL 5 MINUTES", "int", "does not measure"),
        ("WINDOW 4000000000000000000", "bigint", "as wide as all"),
        (TOP.format("WINDOW 5 SLIDE 1", ""), "double", "windows of rounded numbers"),
        (TOP.format("WINDOW 5 SLIDE 1", ""), UNKNOWN, "the type of the order key is not known"),
    ],
)
def test_types_that_do_not_fit(window, order_type, reason):
    found = slices_of(plan(clause(skip="", window=window) if "TOP" in window else clause(window=window)), order_type)
    assert isinstance(found, str) and reason in found


def sample(keys, total, sent=lambda key: True):
    return Sample(tuple(Sampled(key, None, 0, sent(key)) for key in keys), total)


def test_shares():
    assert sample([1, 2, 1, 3] * 5, 2000).share() == Share(0.5)
    assert sample([7] * 20, 2000).share() == Share(1.0) and sample([], 0).share() == Share(0.0)
    assert sample([1] * 12 + [2] * 8, 2000).share() == Share(12 / 2000, key_by_key=True)
    assert sample([1] * 12 + [2] * 8, 20).share() == Share(0.6)
    assert sample([1, 2, 1, 3] * 5, 2000, lambda key: key != 1).share() == Share(0.5)
    assert Share(0.4).worth(4) and not Share(0.3).worth(4) and not Share(1.0).worth(1)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False), (" Always ", ALWAYS)])
def test_the_setting(text, value):
    assert Settings.read({"sparkcep.slices": text}.get).slices == value


def test_a_wrong_setting():
    with pytest.raises(ClauseError, match="sparkcep.slices must be true, false or always, not 'yes'"):
        Settings.read({"sparkcep.slices": "yes"}.get)
