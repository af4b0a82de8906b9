"""The eight queries of ACEP's experiments (VLDB 2016, section 6.2), ``sql_examples/acep/``, on Spark, with and without APPROX."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sparkcep
from tests.selection import first, further, slow
from tests.support import acep_data

FOLDER = Path(__file__).resolve().parents[3] / "sql_examples" / "acep"
ROWS = 600
ERRORS = (0, 1, 2)

# query: words that only it looks for, the errors they have, and what is missing; letters in () are left out
TWEETS = {
    "q1": [
        ("S a b E S a w E S a g E S a u E", []),
        ("S a c E S a h E (S) a e E S a e E", ["S"]),
        ("S a b E S a (w) E S a g E S a (u) E", ["BULLISH", "GUIDANCE"]),
    ],
    "q2": [("S a t1 E S a H E S a D E", []), ("S a (t2) E S a R E S (a) B E", ["DOUBLE_T", "AAPL"])],
    "q3": [("S G g E S G e E S G u E", []), ("S G g E S (G) e E S G u E", ["GOOGL"]), ("S G g E (S) G e E S G (u) E", ["S", "UPGRADE"])],
    "q4": [("S a c E S G D E", []), ("S G h E S (a) R E", ["AAPL"]), ("(S) G w E S a (t2) E", ["S", "DOUBLE_T"])],
}  # fmt: skip
VEHICLES = {
    "q5": [("l p p p p p d", []), ("p p p p p n a", []), ("l p p (p) p p a", ["PARKED"]), ("(l) p p p p c", ["LOADING", "PARKED"])],
    "q6": [("z L z L z L z L z L", []), ("z L z L (z) L z (L) z L", ["STANDING", "SLOW"])],
    "q7": [("z L M1 M2 H", []), ("z L M1 (M2) H", ["MEDIUM_2"]), ("(z) L M1 (M2) H", ["STANDING", "MEDIUM_2"])],
    "q8": [("0l 1l 2l 3l 4l", []), ("0l 0l 1l 1l 2l 3l", ["V"]), ("4l 4l 2l 0l", ["V", "V"])],
}  # fmt: skip


def letters(text: str) -> list[str]:
    """The letters of a word but for those left out."""
    return [x for x in text.split() if not x.startswith("(")]


def vehicle_events(text: str) -> list[tuple]:
    """(vehicle, letter, place) of a word: one vehicle's, unless digits say which; loading at one station."""
    return [(int(x[0]), x[1:], "depot") if x[0].isdigit() else (7, x, None) for x in letters(text)]


@pytest.fixture(scope="module")
def planted(spark):
    """The views; of each query (ts of the last letter, missing) of its words."""
    pd = pytest.importorskip("pandas")
    ends = {}
    for view, words, of in (("tweets", TWEETS, acep_data.tweets), ("vehicles", VEHICLES, acep_data.vehicles)):
        read = letters if view == "tweets" else vehicle_events
        columns, last = of(ROWS, [read(text) for some in words.values() for text, _ in some])
        spark.createDataFrame(pd.DataFrame(columns)).coalesce(1).createOrReplaceTempView(view)
        at = iter(last)
        ends |= {query: [(next(at), missing) for _, missing in some] for query, some in words.items()}
    yield ends
    spark.catalog.dropTempView("tweets")
    spark.catalog.dropTempView("vehicles")


def statement(query: str) -> str:
    return (FOLDER / f"{query}.sql").read_text(encoding="utf-8")


def with_errors(text: str, k: int) -> str:
    assert text.count("APPROX 2\n") == 1
    return text.replace("APPROX 2\n", f"APPROX {k}\n")


def exact(text: str) -> str:
    """The same without APPROX: the rows that exact matches end at."""
    text = re.sub(r"MEASURES .*\n", "MEASURES LAST(ts) AS match_point, MATCH_COUNT() AS n\n", text)
    return text.replace("APPROX 2\n", "EVENT SELECTION SKIP TILL ANY MATCH\n")


@pytest.mark.parametrize("query", [further(query) if 0 < i < 6 else slow(query) for i, query in enumerate([*TWEETS, *VEHICLES])])
def test_query(spark, planted, query):
    text = statement(query)
    parts = [f"SELECT {k} AS k, match_point, errors, missing FROM ({with_errors(text, k)})" for k in ERRORS]
    parts.append(f"SELECT -1, match_point, 0, NULL FROM ({exact(text)})")
    found: dict[int, dict[int, tuple]] = {k: {} for k in (-1, *ERRORS)}
    for k, point, errors, missing in spark.sql(" UNION ALL ".join(parts)).collect():
        assert point not in found[k]
        found[k][point] = (errors, missing)
    # no errors: the exact answer; more errors: no match point less, and none worse
    assert found[0].keys() == found[-1].keys()
    for k in (0, 1):
        assert found[k].keys() <= found[k + 1].keys()
        assert all(found[k + 1][point] == match for point, match in found[k].items())
    assert all(errors == len(missing) <= k for k in ERRORS for errors, missing in found[k].values())
    for point, missing in planted[query]:
        for k in ERRORS:
            assert (point in found[k]) == (k >= len(missing))
        errors, names = found[2][point]
        assert errors == len(missing)
        assert names == missing or query == "q8"  # which of the five vehicles is missing, nothing tells


def test_equivalence_tests_are_keys():
    for query, key in (("q5", "id"), ("q7", "id"), ("q8", "place")):
        assert re.search(rf"additional partition keys.*\n  {key} \(", sparkcep.explain(statement(query)))


@pytest.mark.parametrize("query", first(["q5", "q1"], 0, wider=1))
def test_with_a_budget(spark, planted, query):
    """What is found under a budget is there without one, and what is complete is the same; with checks enough all is found."""
    text = statement(f"{query}_budget")
    assert text.count("BUDGET 4 CHECKS") == 1
    columns = "match_point, since, errors, missing"
    parts = [f"SELECT 'all' AS way, {columns}, true AS complete, 0L AS left_out FROM ({statement(query)})"]
    parts += [f"SELECT '{n}', {columns}, complete, left_out FROM ({text.replace('BUDGET 4 ', f'BUDGET {n} ')})" for n in (4, 100_000)]
    found: dict[str, dict[int, tuple]] = {"all": {}, "4": {}, "100000": {}}
    left = {way: 0 for way in found}
    for way, point, *rest, complete, left_out in spark.sql(" UNION ALL ".join(parts)).collect():
        found[way][point] = (rest, complete)
        left[way] += left_out
    every = {point: match for point, (match, _) in found["all"].items()}
    assert {point: match for point, (match, _) in found["100000"].items()} == every
    assert all(match == every[point] for point, (match, complete) in found["4"].items() if complete)
    assert found["4"].keys() <= every.keys() and left["100000"] == 0 < left["4"]
    assert {point for point, missing in planted[query] if not missing} & found["4"].keys()
