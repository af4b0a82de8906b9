"""Statements that stream, by family: lists, and random ones."""

from __future__ import annotations

import itertools
import random
import re

from sparkcep.clause.parser import parse_clause
from sparkcep.errors import ClauseError
from sparkcep.settings import Settings
from sparkcep.sql.explain.as_automaton import as_automaton
from tests.oracle import automaton as oracle
from tests.oracle import cases, expr, measures, pattern, selection
from tests.property.approx import approx_cases, sides_cases
from tests.property.automaton import test_by_rows
from tests.property.changelog import test_pattern_changes
from tests.property.stream.streams import (
    ANY,
    HEAD,
    NUMBERED,
    PLAIN,
    WINDOW,
    compared,
    in_time,
    tried,
)

ADJACENT_ROWS = [
    f"{HEAD} {PLAIN} PATTERN (A B+ C) DEFINE A AS v < 2, B AS v >= PREV(v), C AS w > 0",
    f"{HEAD} {NUMBERED} PATTERN (A B*? C) DEFINE B AS v >= avg(v), C AS w > 0",
    f"{HEAD} {NUMBERED}, PREV(v, 2) AS p2, NEXT(v, 1) AS n1 PATTERN (^ A B* C) DEFINE B AS v > 0, C AS w > 0",
    f"{HEAD} {NUMBERED} PATTERN (^ A B | C D) DEFINE A AS v > 0, B AS w > 0, C AS w > 1",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{{1,3}}) DEFINE B AS v > FIRST(v)",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP TO LAST B PATTERN (A B+ C) DEFINE B AS v > 0, C AS v > FIRST(v)",
    f"{HEAD} {NUMBERED} ALL ROWS PER MATCH PATTERN (A B+) {WINDOW} DEFINE B AS v >= PREV(v)",
    f"{HEAD} {NUMBERED} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v > 0, C AS w > 0",
    f"{HEAD} {PLAIN} ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW PATTERN (A (B | C){{2}} D?) DEFINE B AS v > FIRST(v), C AS v < FIRST(v)",
    f"{HEAD} {PLAIN}, PREV(FIRST(v)) AS b PATTERN (A B+ C) {WINDOW} DEFINE B AS v >= 1, C AS w > 0",
    # PREV of rows that have others of the match before them
    f"{HEAD} {PLAIN}, PREV(LAST(C.v), 2) AS b PATTERN (A B+ C) {WINDOW} DEFINE B AS v >= PREV(v), C AS v < PREV(v)",
]
SELECTIONS = [
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v >= PREV(v), C AS v > A.v",
    f"{HEAD} {NUMBERED} EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) DEFINE A AS v < 2, B AS v > 2, C AS v > A.v",
    f"{HEAD} {NUMBERED} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N C) {WINDOW} DEFINE A AS v < 2, N AS v = 2, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+ C) WINDOW 4 ROWS DEFINE A AS v < 3, C AS w > 0",
    f"{HEAD} {PLAIN} AFTER MATCH SKIP PAST LAST ROW EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, C AS w > 0",
    f"{HEAD} {NUMBERED} ALL ROWS PER MATCH WITH UNMATCHED ROWS EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A C) {WINDOW} DEFINE A AS v < 2, C AS w > 0",
    f"{HEAD} {NUMBERED} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ((A B) & (C D)) {WINDOW} DEFINE A AS v < 2, B AS v > 1, C AS w > 0, D AS w < 1",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (~N A B) {WINDOW} DEFINE N AS v > PREV(v), A AS w > 0, B AS v > 1",
    f"{HEAD} {PLAIN}, PREV(B.v) AS b EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A ~N B C?) {WINDOW} DEFINE N AS v > PREV(v), B AS v >= PREV(v), C AS w > PREV(w, 2)",
    # emitted at once, with conditions on the match, by neighbours, with rows in no match, with NEXT
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 3, B AS v >= avg(B.v), C AS w > A.w",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES PATTERN (A B* C) {WINDOW} DEFINE A AS v < 3, B AS v >= LAST(B.v), C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN (A B* C?) {WINDOW} DEFINE A AS v < 3, B AS v >= A.v, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION STRICT CONTIGUITY ALL MATCHES PATTERN (A B* C) WINDOW INTERVAL '20' MICROSECONDS DEFINE A AS v < 4, B AS w < 2, C AS w > 1",
    f"{HEAD} {PLAIN} ALL ROWS PER MATCH WITH UNMATCHED ROWS EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, B AS v > A.v, C AS w > 0",
    f"{HEAD} {PLAIN}, NEXT(LAST(v), 2) AS x EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A C) {WINDOW} DEFINE A AS v <> NEXT(v), C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN ((A B) & (C D+)) {WINDOW} DEFINE A AS v < 3, B AS v > D.v, C AS w > 0",
    f"{HEAD} {PLAIN} EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A ~N C) {WINDOW} DEFINE A AS v < 2, N AS v = 2, C AS w > 0",
]
CLAUSES = [*ADJACENT_ROWS, *SELECTIONS]
COUNTS = f"{HEAD} LAST(id) AS z, MATCH_COUNT() AS n {ANY}"
GRAPHS = f"{HEAD} LAST(id) AS z, MATCH_GRAPH() AS g {ANY}"
MATCH_COUNTS = [
    f"{COUNTS} PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, C AS w > 0",
    f"{COUNTS} PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 2, B AS v >= PREV(v), C AS w > A.w",
    f"{COUNTS} PATTERN (A B* C) WINDOW 4 ROWS DEFINE A AS v < 2, B AS v <> NEXT(v), C AS w > 0",
    f"{COUNTS} PATTERN (A ~N C) {WINDOW} DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    f"{COUNTS} PATTERN (~N A C) {WINDOW} DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    f"{COUNTS} PATTERN ((A B) & (C D)) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS w > 0, D AS w < 1",
    f"{GRAPHS} PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 3, C AS w > 0",
    f"{GRAPHS} PATTERN (((A*?)? (A* | A)) WITHIN INTERVAL '4' MICROSECONDS) WINDOW INTERVAL '3' MICROSECONDS DEFINE A AS v > 0",
    f"{GRAPHS} PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, B AS w <> A.v",
    f"{GRAPHS} PATTERN (A ~N C) WINDOW 5 ROWS DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    # ^ holds for a key's first row ever
    f"{COUNTS} PATTERN (^ A B+ C) WINDOW INTERVAL '30' MICROSECONDS DEFINE A AS v < 4, C AS w > 0",
    f"{COUNTS} PATTERN ((^ A | D) B* C) {WINDOW} DEFINE A AS v < 4, B AS v > 0, C AS w > 0, D AS v = 3",
    f"{COUNTS} PATTERN ((^ A | D) B* C) {WINDOW} DEFINE A AS v < 4, B AS v >= A.v OR w > D.w, C AS w > 0, D AS v = 3",
    f"{GRAPHS} PATTERN ((^ A | D) C) {WINDOW} DEFINE A AS v < 4, C AS w > 0, D AS v = 3",
    f"{COUNTS} PATTERN ((^ A B) & (C D)) WINDOW INTERVAL '30' MICROSECONDS DEFINE B AS v > 1, C AS w > 0, D AS w < 1",
    # CLASSIFIER() of a row outside of the match is NULL, however many rows are kept
    f"{HEAD} {PLAIN}, PREV(CLASSIFIER()) AS b, NEXT(CLASSIFIER()) AS x ALL ROWS PER MATCH PATTERN (A B+ C) {WINDOW} DEFINE A AS v < 3, B AS v >= FIRST(v) AND PREV(CLASSIFIER()) IS NOT NULL, C AS w > 0",
    f"{HEAD} {PLAIN}, PREV(CLASSIFIER(), 2) AS b ALL ROWS PER MATCH EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS v > A.v",
    # negations after the match, and beside &
    f"{COUNTS} PATTERN (A C ~N) {WINDOW} DEFINE A AS v < 3, N AS v = 2, C AS w > 0",
    f"{COUNTS} PATTERN (A B ~N) WINDOW INTERVAL '6' MICROSECONDS DEFINE A AS v < 4, N AS v > NEXT(v)",
    f"{COUNTS} PATTERN (A C ~(N M)) WINDOW 5 ROWS DEFINE A AS v < 3, N AS v = 2, M AS w > A.w, C AS w > 0",
    f"{GRAPHS} PATTERN (A B C ~N) {WINDOW} DEFINE A AS v < 3, C AS w > 0, N AS v > NEXT(v)",
    f"{COUNTS} PATTERN ((A ~N B) & (C D)) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS w > 0, D AS w < 1, N AS v = 3",
    f"{COUNTS} PATTERN ((A B ~N) & (~M C)) {WINDOW} DEFINE A AS v < 3, B AS v > 1, C AS w > 0, N AS v = 2, M AS v = 3",
]
APPROXIMATE = [
    f"{HEAD} LAST(id) AS z, FIRST(id) AS f, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MISSING() AS m PATTERN (A B+ C) APPROX 2 DEFINE A AS v < 2, B AS v > 2, C AS w > 1",
    f"{HEAD} LAST(id) AS z, MISSING() AS m PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} MATCH_ERRORS() AS e, PREV(v) AS p ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 1, B AS v > 3, C AS w > 1",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 2 PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_COUNT() AS c PATTERN (A B C) {WINDOW} APPROX 1 PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, C AS w > A.w",
    f"{HEAD} LAST(id) AS z, FIRST(id) AS a, MATCH_ERRORS() AS e PATTERN (A B C) {WINDOW} APPROX 1 ALL MATCHES DEFINE A AS v < 2, B AS v > 2, C AS w > A.w",
    f"{HEAD} LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN ((^ A | D) B C) WINDOW 5 ROWS APPROX 1 DEFINE B AS v > 1, C AS w > B.w, D AS v = 3",
    f"{HEAD} PREV(CLASSIFIER()) AS b, NEXT(CLASSIFIER(A)) AS x, MATCH_ERRORS() AS e ALL ROWS PER MATCH PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    # rows in no match
    f"{HEAD} MATCH_NUMBER() AS n, MATCH_ERRORS() AS e, PREV(v) AS b ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} MATCH_ERRORS() AS e, MATCH_COUNT() AS k ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) WINDOW 4 ROWS APPROX 1 PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} MISSING() AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B ~N) {WINDOW} APPROX 1 WEIGHTS (A 2) DEFINE A AS v < 2, B AS v > 2, N AS v = 0",
    f"{HEAD} MATCH_ERRORS() AS e ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > PREV(v, 2), C AS w > 0",
    f"{HEAD} LAST(id) AS z, FIRST(id) AS a, MATCH_NUMBER() AS n, MATCH_ERRORS() AS e PATTERN (A B ~N C) {WINDOW} APPROX 1 WEIGHTS (A 2) DEFINE A AS v < 2, B AS v > 2, N AS v > A.v, C AS w > 1",
    f"{HEAD} LAST(id) AS z, MATCH_ERRORS() AS e PATTERN (A B ~N) {WINDOW} APPROX 1 WEIGHTS (A 2, ~N 1) PROXY MATCHES PER ERROR DEFINE A AS v < 2, B AS v > 2, N AS v = 0",
    # sides of &
    f"{HEAD} LAST(id) AS z, FIRST(id) AS f, MATCH_NUMBER() AS n, MISSING() AS m, MATCH_COUNT() AS k PATTERN (A B & C) {WINDOW} APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} LAST(id) AS z, FIRST(id) AS f, MATCH_ERRORS() AS e PATTERN (A B & C) {WINDOW} APPROX 1 ALL MATCHES DEFINE A AS v < 2, B AS v > 2, C AS w > A.w",
    f"{HEAD} MISSING() AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B ~N & C D) WINDOW 4 ROWS APPROX 1 DEFINE A AS v < 2, B AS v > 2, C AS w > 1, D AS w > C.w, N AS v = 0",
]
BUNDLES = [
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, BUNDLE_SIZE() AS c, MATCH_NUMBER() AS n PATTERN (A B C) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES "
    "DEFINE A AS v < 1, B AS v > 3, C AS w > 1",
    f"{HEAD} BUNDLE_END() AS z, BUNDLE_SIZE() AS c, MATCH_ERRORS() AS e PATTERN (A B C) WINDOW 3 ROWS APPROX 1 MATCH BUNDLES DEFINE A AS v < 3, B AS v > NEXT(v), C AS w > 0",
    f"{HEAD} PREV(LAST(CLASSIFIER())) AS b, BUNDLE_END() AS z PATTERN (A B C) WINDOW INTERVAL '7' MICROSECONDS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    # bundles of matches that conditions, negations or MATCH_COUNT() read
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, BUNDLE_SIZE() AS c, MATCH_NUMBER() AS n, FIRST(id) AS f, NEXT(LAST(v)) AS x, PREV(FIRST(v)) AS b PATTERN (A B C) WINDOW INTERVAL '7' MICROSECONDS APPROX 1 MATCH BUNDLES "
    "DEFINE A AS v < 2, B AS v > A.v, C AS w > A.w",
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, MATCH_COUNT() AS k, FIRST(id) AS f PATTERN (A B C) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > 2, C AS w > 0",
    f"{HEAD} BUNDLE_START() AS s, BUNDLE_END() AS z, MATCH_COUNT() AS k, LAST(id) AS l PATTERN (A B C) WINDOW 3 ROWS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > A.v, C AS w > 1",
    f"{HEAD} BUNDLE_END() AS z, BUNDLE_SIZE() AS c, FIRST(id) AS f PATTERN (A B C ~N) WINDOW INTERVAL '3' MICROSECONDS APPROX 1 MATCH BUNDLES DEFINE A AS v < 2, B AS v > 2, C AS w > 0, N AS v = 0",
    f"{HEAD} BUNDLE_END() AS z, MATCH_ERRORS() AS e, CLASSIFIER() AS l ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B C) WINDOW INTERVAL '2' MICROSECONDS APPROX 1 MATCH BUNDLES "
    "DEFINE A AS v < 1, B AS v > A.v, C AS w > 1",
]
LAST_ROWS = [*MATCH_COUNTS, *APPROXIMATE, *BUNDLES]
PEAKS = (
    "AUTOMATON (REGISTER n INT = 0, last INT STATE q2 FINAL ARC a FROM q0 TO q1 WHEN v < 3 SET last = v ARC b FROM q1 TO q1 WHEN v >= last SET n = n + 1, last = v "
    "ARC c FROM q1 TO q2 WHEN w > 0)"
)
ABSENT = "AUTOMATON (STATE q1 IGNORE WHEN v <> 2, q2 FINAL ARC a FROM q0 TO q1 WHEN v < 3 ARC FROM q1 TO q2 WHEN w > 1 ARC FROM q1 TO q2 ON EXPIRY)"
AUTOMATA = [
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n, MATCH_NUMBER() AS m, MATCH_TO() AS t {PEAKS} {WINDOW}",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n {PEAKS}",
    f"{HEAD} CLASSIFIER() AS c, NEXT(v) AS x ALL ROWS PER MATCH {PEAKS} {WINDOW}",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, n AS n, MATCH_TO() AS t {PEAKS} LIFETIME TO id + 4",
    f"{HEAD} CLASSIFIER() AS c, n AS n, LAST(v) AS l ALL ROWS PER MATCH WITH UNMATCHED ROWS {PEAKS} {WINDOW}",
    f"{HEAD} MATCH_NUMBER() AS m, PREV(v) AS b, n AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS {PEAKS} LIFETIME TO id + 4",
    f"{HEAD} FIRST(id) AS a, LAST(id) AS z, MATCH_NUMBER() AS m, MATCH_FROM() AS f {ABSENT} {WINDOW}",
    f"{HEAD} CLASSIFIER() AS c, MATCH_FROM() AS f, NEXT(v) AS x ALL ROWS PER MATCH WITH UNMATCHED ROWS {ABSENT} LIFETIME TO id + 4",
]
# without numbers, matches of arcs ON EXPIRY follow others of later rows (test_stream_expiries compares them)
BY_EXPIRY = [f"{HEAD} FIRST(id) AS a, LAST(id) AS z, MATCH_FROM() AS f {ABSENT} {WINDOW}"]


def adjacent_rows(rng: random.Random) -> str:
    clause = cases.random_clause(rng)
    clause.measures = cases.BASE_MEASURES
    return clause.to_sql()


def event_selection(rng: random.Random) -> str:
    return selection.random_query(rng, shapes=("plain", "plain", "negation", "group", "conjunction")).to_sql()


def numbers_and_graphs(rng: random.Random) -> str:
    query = selection.random_query(rng, report="all", shapes=("plain", "plain", "negation", "group", "conjunction"))
    query.mode, query.skip = measures.ONE_ROW, None
    return re.sub(r"MEASURES .*", f"MEASURES LAST(id) AS z, {rng.choice(['MATCH_COUNT()', 'MATCH_COUNT()', 'MATCH_GRAPH()'])} AS n", query.to_sql())


def automata(rng: random.Random) -> str:
    rows = rng.choice([*["ONE ROW PER MATCH"] * 3, "ALL ROWS PER MATCH WITH UNMATCHED ROWS"])
    return oracle.clause(oracle.random_automaton(rng), "FIRST(id) AS a, LAST(id) AS z, MATCH_NUMBER() AS n, MATCH_TO() AS t, count(*) AS c", rows)


def approximate(rng: random.Random) -> str:
    return in_order(approx_cases.random_case(rng, strategy=rng.choice([None, None, None, approx_cases.NEXT])))


def in_order(case: approx_cases.Case) -> str:
    """The clause of rows in the order of their times."""
    return case.with_(unit=None).to_sql().replace(f"ORDER BY t{' DESC' if case.descending else ''}, id", "ORDER BY id")


def approximate_sides(rng: random.Random) -> str:
    return in_order(sides_cases.random_case(rng))


def anchored(rng: random.Random, text: str) -> str:
    """Sometimes the clause of matches that begin with their partition."""
    return text.replace("PATTERN (", "PATTERN (^ ", 1) if rng.random() < 0.4 and "|" not in text.split("PATTERN (")[1].splitlines()[0] else text


def ends_of_matches(rng: random.Random) -> str:
    """Numbers and graphs of matches with ^, or with negations at the ends and beside &."""
    query = selection.random_query(rng, report="all", shapes=("plain", "negation", "negation", "group", "conjunction", "sided group"))
    query.mode, query.skip = measures.ONE_ROW, None
    return anchored(rng, re.sub(r"MEASURES .*", f"MEASURES LAST(id) AS z, {rng.choice(['MATCH_COUNT()', 'MATCH_COUNT()', 'MATCH_GRAPH()'])} AS n", query.to_sql()))


def ends_of_approximate_matches(rng: random.Random) -> str:
    """The best approximate matches and bundles, with ^, rows in no match, and negations at the ends."""
    while True:
        case = approx_cases.random_case(rng, report=rng.choice([approx_cases.PROXY, approx_cases.PER_ERROR, approx_cases.BUNDLES, approx_cases.BUNDLES]))
        if case.window is not None and "$" not in case.pattern_text:
            break
    rows = "ALL ROWS PER MATCH WITH UNMATCHED ROWS" if "{-" not in case.pattern_text and rng.random() < 0.7 else "ALL ROWS PER MATCH"
    return anchored(rng, in_order(case).replace("ALL ROWS PER MATCH", rows))


def told_at_once(rng: random.Random) -> str:
    """ALL MATCHES without numbers, so that each is emitted with its last row."""
    while True:
        text = re.sub(r"MATCH_NUMBER\(\) AS \w+(, )?", "", rng.choice([event_selection, event_selection, approximate])(rng))
        if "ALL MATCHES" in text and "PAST LAST ROW" not in text:
            return text



# -- statements that draw more ------------------------------------------------------------------------------------------

WIDER = ("plain", "nested", "negation", "negation of a taken variable", "group", "conjunction", "sided group")  # shapes of selection.random_query


def wider_adjacent_rows(rng: random.Random) -> str:
    """Conditions over labels, numbers and strings, and measures that look around the match."""
    clause = cases.random_clause(rng)
    names = pattern.variables(clause.pattern)
    for name in names:
        if rng.random() < 0.3:
            clause.defines[name] = expr.random_aggregate_condition(rng, names)
    with_strings(rng, clause.defines, names, tuple(clause.subsets))
    window = f"\nWINDOW {rng.randint(2, 9)}{rng.choice([' ROWS', ''])}" if rng.random() < 0.4 else ""
    return re.sub(r"(?m)^PATTERN .*$", lambda found: found[0] + window, with_places(clause.to_sql()))


def wider_selection(rng: random.Random) -> str:
    """All shapes of patterns, windows of groups in rows, and conditions over strings."""
    return with_places(wider_query(rng).to_sql())


def wider_numbers(rng: random.Random) -> str:
    query = wider_query(rng, report="all")
    query.mode, query.skip = measures.ONE_ROW, None
    return re.sub(r"MEASURES .*", f"MEASURES LAST(id) AS z, {rng.choice(['MATCH_COUNT()', 'MATCH_COUNT()', 'MATCH_GRAPH()'])} AS n", query.to_sql())


def wider_query(rng: random.Random, report: str | None = None) -> selection.Query:
    query = selection.random_query(rng, report=report, shapes=WIDER)
    query.pattern = _in_rows(rng, query.pattern)
    query.pattern_text = pattern.to_text(query.pattern, rng)
    with_strings(rng, query.defines, pattern.variables(query.pattern), tuple(query.subsets))
    return query


def with_strings(rng: random.Random, defines: dict, names: list[str], subsets: tuple[str, ...]) -> None:
    """Adds comparisons of strings to some conditions."""
    for name in names:
        if rng.random() < 0.3:
            compared_strings = _of_strings(rng, name, [*names, *subsets])
            defines[name] = (rng.choice(["and", "or"]), defines[name], compared_strings) if name in defines and rng.random() < 0.6 else compared_strings


def _of_strings(rng: random.Random, name: str, names: list[str]) -> tuple:
    own, over, roll = ("col", "s"), rng.choice([None, name, *names]), rng.random()
    if roll < 0.5:
        other = ("nav", rng.choice(["FIRST", "LAST"]), over, rng.choice([0, 0, 1]), own)
    elif roll < 0.65:
        other = (rng.choice(["prev", "next"]), 1, own)
    elif roll < 0.85:
        other = ("agg", rng.choice(["min", "max"]), over, own, False)
    else:
        other = ("by", rng.choice(["max_by", "min_by"]), over, own, ("col", "v"))
    return (rng.choice(["=", "<>", "<", ">="]), own, other)


def _in_rows(rng: random.Random, p: tuple) -> tuple:
    """The pattern with windows of rows around some of the groups that have a window."""
    if p[0] in ("cat", "alt", "and", "permute"):
        return (p[0], [_in_rows(rng, part) for part in p[1]])
    if p[0] in ("rep", "within") or (p[0] == "neg" and isinstance(p[1], tuple)):
        p = (p[0], _in_rows(rng, p[1]), *p[2:])
    return ("within", p[1], pattern.Rows(p[2] + 1)) if p[0] == "within" and rng.random() < 0.4 else p


def with_places(text: str) -> str:
    """The statement with the names that :func:`tests.property.stream.streams.ended` gives the first and the last row."""
    return text.replace(" AS m_first", " AS a").replace(" AS m_last", " AS z")


def by_rows(rng: random.Random, changes: str = "", numbers: str = "MATCH_NUMBER() AS m_no,") -> str:
    """An AUTOMATON BY ROWS, whose arcs without a name pass over rows."""
    text = test_by_rows.text_of(test_by_rows.random_graph(rng, rng.choice(test_by_rows.SHAPES)), changes, f"{numbers} FIRST(id) AS a, LAST(id) AS z")
    return text.replace("id + 1 + w", "id + 3 + w").replace("ALL ROWS PER MATCH", rng.choice(["ONE ROW PER MATCH", "ALL ROWS PER MATCH", *([] if changes else ["ALL ROWS PER MATCH WITH UNMATCHED ROWS"])]))


def printed_automata(rng: random.Random) -> str:
    """A PATTERN as the AUTOMATON that EXPLAIN AUTOMATON prints."""
    while True:
        query = test_pattern_changes.random_query(rng, rng.choice([measures.ONE_ROW, measures.SHOW_EMPTY, measures.WITH_UNMATCHED]))
        try:
            return as_automaton(parse_clause(in_time(with_places(query.to_sql()))), Settings())
        except ClauseError as error:
            assert error.error_class == "SPARKCEP.AUTOMATON", error


KINDS = {"adjacent rows": (adjacent_rows, 13, 20), "event selection": (event_selection, 15, 20), "numbers": (numbers_and_graphs, 15, 8), "automata": (automata, 15, 20),
         "told at once": (told_at_once, 15, 20),
         "approximate": (approximate, 20, 8), "approximate sides": (approximate_sides, 8, 8), "ends of matches": (ends_of_matches, 10, 4), "ends of approximate matches": (ends_of_approximate_matches, 7, 15)}  # fmt: skip


def compared_of_kind(kind: str, seed: int) -> None:
    """Compares random statements of a kind over random streams, and checks that enough output rows were compared."""
    make, count, _ = KINDS[kind]
    rng = random.Random(f"{kind} {seed}")
    rows = (tried(make(rng), rng) or 0 for _ in range(3 * count))  # more draws if the first ones give 0 rows
    assert sum(itertools.islice(rows, max((count + 1) // 2, min(count, 10)))) > 0 or any(rows)


def compared_clause(text: str, most: int) -> None:
    """Compares a clause over random streams of ``most`` rows a key at most, and checks that enough output rows were compared."""
    rng = random.Random(text)
    assert sum(compared(text, rng, 6, most) for _ in range(4)) > 5
