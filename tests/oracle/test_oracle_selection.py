"""The oracle of event selection against cases worked out by hand and against two other brute forces."""

import random
import re
from itertools import combinations

import pytest

from tests.oracle import measures, pattern
from tests.oracle.cases import random_clause
from tests.oracle.match import SkipTargetError, TooManySteps, find_matches
from tests.oracle.regex import to_regex
from tests.oracle.selection import ALL, ANY, FIRST, NEXT, STRICT, Budget, Query, random_query, random_rows

A, B, C, D = (("var", name) for name in "ABCD")
NOT_B = ("neg", "B")
V = ("col", "v")
LETTERS = {name: ("=", ("col", "s"), ("lit", name.lower())) for name in "ABCD"}


def cat(*children):
    return ("cat", list(children))


def alt(*children):
    return ("alt", list(children))


def both(*children):
    return ("and", list(children))


def plus(p, greedy=True):
    return ("rep", p, 1, None, greedy)


def star(p, greedy=True):
    return ("rep", p, 0, None, greedy)


def maybe(p, greedy=True):
    return ("rep", p, 0, 1, greedy)


def times(p, n):
    return ("rep", p, n, n, True)


def within(p, size):
    return ("within", p, size)


def of(variable, column="v"):
    return ("nav", "LAST", variable, 0, ("col", column))


def prior(e):
    return ("prior", e)


def letter(name, *more):
    condition = LETTERS[name]
    for e in more:
        condition = ("and", condition, e)
    return condition


def over(text, v=None, ids=None, w=None):
    """Rows s = the letters of the text."""

    def at(values, i):
        return None if values is None else values[i]

    return [
        {"p": 0, "id": i if ids is None else ids[i], "v": at(v, i), "w": at(w, i), "s": letter} for i, letter in enumerate(text)
    ]


def query(p, strategy, report=ALL, defines=LETTERS, **options):
    used = pattern.variables(p)
    return Query(p, pattern.to_text(p), {k: e for k, e in defines.items() if k in used}, strategy, report, **options)


def spelled(matches):
    """A match as `A0 B2`: variable and row position."""
    return [" ".join(f"{variable}{row}" for row, variable in match) for match in matches]


def found(p, text, strategy, report=ALL, defines=LETTERS, v=None, ids=None, w=None, **options):
    return spelled(query(p, strategy, report, defines, **options).matches(over(text, v, ids, w)))


# --- strategies: (pattern, text, strategy, report, expected), the reason above each ------------------------------

ABC = cat(A, plus(B), C)
STRATEGIES = [
    # x stands between b and b.
    (ABC, "abxbcc", STRICT, ALL, []),
    # x is ignored, the second b cannot be; at the first c the loop of b's is left or stays.
    (ABC, "abxbcc", NEXT, ALL, ["A0 B1 B3 C4", "A0 B1 B3 C5"]),
    # Every subsequence; greedy: another B before C, at each step the earlier row first.
    (ABC, "abxbcc", ANY, ALL, ["A0 B1 B3 C4", "A0 B1 B3 C5", "A0 B1 C4", "A0 B1 C5", "A0 B3 C4", "A0 B3 C5"]),
    # Among runs that differ only by ignoring, the earlier row.
    (ABC, "abxbcc", ANY, FIRST, ["A0 B1 B3 C4"]),
    (cat(A, B), "axb", STRICT, FIRST, []),
    (cat(A, B), "axb", NEXT, FIRST, ["A0 B2"]),
    # Strict, all: every way to label adjacent rows.
    (cat(A, star(B)), "abb", STRICT, ALL, ["A0 B1 B2", "A0 B1", "A0"]),
    # Pattern choice before row choice: C is tried at every row before B is.
    (cat(A, alt(C, B)), "abc", ANY, FIRST, ["A0 C2"]),
    (cat(A, alt(C, B)), "abc", ANY, ALL, ["A0 C2", "A0 B1"]),
    # The row b is accepted by B, so the run cannot ignore it on its way to C.
    (cat(A, alt(C, B)), "abc", NEXT, ALL, ["A0 B1"]),
    # Two places of A: from the first alternative only B is reachable, so c is ignored there.
    (alt(cat(A, B), cat(A, C)), "acb", NEXT, ALL, ["A0 B2", "A0 C1"]),
    # Reluctant: going on is preferred, and ignoring b is free ...
    (cat(A, star(B, False), C), "abc", ANY, FIRST, ["A0 C2"]),
    # ... but not under skip till next, where B accepts it.
    (cat(A, star(B, False), C), "abc", NEXT, ALL, ["A0 B1 C2"]),
    # Taking B, however late, is preferred to leaving it out.
    (cat(A, maybe(B), C), "acbc", ANY, FIRST, ["A0 B2 C3"]),
    # The row c is reachable through the optional B and accepted.
    (cat(A, maybe(B), C), "acbc", NEXT, FIRST, ["A0 C1"]),
    # The third b is reached by no run: after two only the end is left.
    (cat(A, times(B, 2)), "axbbb", NEXT, ALL, ["A0 B2 B3"]),
    (cat(A, times(B, 2)), "abbb", ANY, ALL, ["A0 B1 B2", "A0 B1 B3", "A0 B2 B3"]),
    # The counter is part of the state: after two A only B is reachable, so the third a is ignored.
    (cat(times(A, 2), B), "aaab", NEXT, ALL, ["A0 A1 B3", "A1 A2 B3"]),
    # After one A, another A or B is reachable: the second a must be taken.
    (cat(plus(A), B), "aab", NEXT, ALL, ["A0 A1 B2", "A1 B2"]),
    (cat(plus(A), B), "aab", ANY, ALL, ["A0 A1 B2", "A0 B2", "A1 B2"]),
    # Each row is a start of its own; before the first row nothing is ignored.
    (cat(A, B), "aab", NEXT, ALL, ["A0 B2", "A1 B2"]),
    (cat(A, B), "xab", ANY, ALL, ["A1 B2"]),
    # Take or proceed stays open: with both accepted, both runs live on (A undefined accepts b as well).
    (cat(plus(("var", "X")), B), "xbb", NEXT, ALL, ["X0 X1 B2", "X0 B1", "X1 B2"]),
    # Ambiguity does not multiply a match; empty matches are not reported.
    (cat(star(A), star(A)), "aa", ANY, ALL, ["A0 A1", "A0", "A1"]),
    (cat(star(A), star(A)), "aa", STRICT, ALL, ["A0 A1", "A0", "A1"]),
    # FIRST MATCH does report them, at each row where nothing better begins.
    (star(A), "ba", NEXT, FIRST, ["", "A1"]),
    # PERMUTE takes any order that the rows offer.
    (("permute", [A, B]), "bxab", ANY, ALL, ["B0 A2", "A2 B3"]),
    (("permute", [A, B, C]), "cab", NEXT, FIRST, ["C0 A1 B2"]),
    # Anchors: no gap before $ or ^.
    (cat(A, ("end",)), "aba", ANY, ALL, ["A2"]),
    (cat(("start",), A, B), "aab", ANY, ALL, ["A0 B2"]),
    # A loop over a group.
    (plus(cat(A, B)), "axbxab", NEXT, ALL, ["A0 B2 A4 B5", "A0 B2", "A4 B5"]),
    # An optional group: once begun it has to be finished.
    (cat(A, maybe(cat(B, C)), D), "abd", ANY, ALL, ["A0 D2"]),
    # b begins the group, so it cannot be ignored, and the group then never ends.
    (cat(A, maybe(cat(B, C)), D), "abd", NEXT, ALL, []),
]


@pytest.mark.parametrize(("p", "text", "strategy", "report", "expected"), STRATEGIES)
def test_strategies(p, text, strategy, report, expected):
    assert found(p, text, strategy, report) == expected


# --- AFTER MATCH -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "text", "strategy", "report", "skip", "expected"),
    [
        # FIRST: past the last row by default, so the second a is inside the match and passed over.
        (cat(A, B), "aab", NEXT, FIRST, None, ["A0 B2"]),
        (cat(A, B), "aab", NEXT, FIRST, ("to next row",), ["A0 B2", "A1 B2"]),
        # ALL: to the next row by default.
        (cat(A, B), "aabb", ANY, ALL, None, ["A0 B2", "A0 B3", "A1 B2", "A1 B3"]),
        # Not overlapping: row 2 completes A0 and A1, the earlier start wins; then onward after row 2.
        (cat(A, B), "aabbab", ANY, ALL, ("past last row",), ["A0 B2", "A4 B5"]),
        # What completes first wins over what starts first.
        (alt(cat(A, C), B), "abc", ANY, ALL, ("past last row",), ["B1"]),
        # Of one start and one completing row, the preferred: greedy.
        (cat(plus(A), B), "aab", ANY, ALL, ("past last row",), ["A0 A1 B2"]),
        # To the last B (row 3) and on: the a there is none, the next is row 4.
        (cat(A, plus(B)), "abxbab", NEXT, FIRST, ("to last", "B"), ["A0 B1 B3 B5"]),
        # To the first B: row 1, so the a at row 2, which the match ignored, begins another.
        (cat(A, B, C), "abaxbc", NEXT, FIRST, ("to first", "B"), ["A0 B1 C5", "A2 B4 C5"]),
    ],
)
def test_skip(p, text, strategy, report, skip, expected):
    assert found(p, text, strategy, report, skip=skip) == expected


def test_skip_to_the_first_row_is_an_error():
    with pytest.raises(SkipTargetError):
        found(cat(A, B), "axb", NEXT, FIRST, skip=("to last", "A"))
    with pytest.raises(ValueError):
        query(A, ANY, ALL, skip=("to last", "A"))


# --- WINDOW and WITHIN -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "text", "strategy", "options", "expected"),
    [
        # Position 2 - position 0 = 2 is not less than 2.
        (cat(A, B), "axb", ANY, dict(window=("rows", 2)), []),
        (cat(A, B), "axb", ANY, dict(window=("rows", 3)), ["A0 B2"]),
        # Half-open: 5 - 0 < 5 does not hold.
        (cat(A, B), "ab", STRICT, dict(window=("range", 5), ids=[0, 5]), []),
        (cat(A, B), "ab", STRICT, dict(window=("range", 6), ids=[0, 5]), ["A0 B1"]),
        # The window bounds the search: the greedy run outgrows it and a shorter one is the preferred match.
        (cat(A, plus(B)), "abbb", STRICT, dict(window=("rows", 3), report=FIRST), ["A0 B1 B2"]),
        (cat(A, alt(times(B, 3), B)), "abbb", STRICT, dict(window=("rows", 2), report=FIRST), ["A0 B1"]),
        (cat(A, maybe(B), C), "acb", ANY, dict(window=("rows", 3), report=FIRST), ["A0 C1"]),
        # A row whose t is NULL is in no match.
        (cat(A, B), "abb", ANY, dict(window=("range", 9), ids=[1, None, 2]), ["A0 B2"]),
        # The group's own bound: 2 - 0 and 4 - 0 are too far, 4 - 3 is not; C lies outside the group.
        (cat(within(cat(A, B), 2), C), "axbabxxc", ANY, {}, ["A3 B4 C7"]),
        # Each occurrence of the group by itself.
        (plus(within(cat(A, B), 2)), "abab", STRICT, dict(report=FIRST), ["A0 B1 A2 B3"]),
        # The second b is beyond the group's window, so nothing accepts it and it is ignored.
        (cat(A, within(cat(B, maybe(B)), 2), C), "abxbc", NEXT, {}, ["A0 B1 C4"]),
        # The group's bound is one of id, not of rows.
        (within(cat(A, B), 3), "abab", ANY, dict(ids=[0, 3, 4, 5]), ["A2 B3"]),
    ],
)
def test_windows(p, text, strategy, options, expected):
    assert found(p, text, strategy, **options) == expected


# --- PRIOR and running conditions --------------------------------------------------------------------------------


def test_prior_is_true_on_the_first_iteration_then_compares():
    # 2 > 1; then 2 > 2 fails, and the third row begins anew.
    rising = {"A": (">", V, prior(of("A")))}
    assert found(plus(A), "aaa", STRICT, FIRST, rising, v=[1, 2, 2]) == ["A0 A1", "A2"]
    # Skip till next ignores the row that does not rise.
    assert found(plus(A), "aaa", NEXT, FIRST, rising, v=[1, 1, 2]) == ["A0 A2"]


def test_first_iteration_is_the_first_row_of_the_match():
    # In (A+ B)+ the A at row 2 is the second one of the match: 1 > 1 fails.
    defines = {"A": letter("A", (">", V, prior(of("A")))), "B": LETTERS["B"]}
    assert found(plus(cat(plus(A), B)), "abab", STRICT, FIRST, defines, v=[1, 0, 1, 0]) == ["A0 B1", "A2 B3"]


def test_a_conjunct_that_is_null_by_its_prior_is_true_on_the_first_iteration():
    counted = ("=", prior(("agg", "count", "A", "*", False)), ("lit", 0))
    # PRIOR(COUNT(A.*)) is NULL, not 0, on the first iteration, and then 1: the conjunct is true once, as a comparison ...
    assert found(plus(A), "aa", STRICT, FIRST, {"A": counted}) == ["A0", "A1"]
    # ... and inside OR or NOT, where it is NULL as a whole.
    assert found(plus(A), "aa", STRICT, FIRST, {"A": ("or", counted, ("lit", False))}) == ["A0", "A1"]
    assert found(plus(A), "aa", STRICT, FIRST, {"A": ("not", ("not", counted))}) == ["A0", "A1"]
    # NULL AND false is false, and so is its disjunction with false.
    assert found(plus(A), "aa", STRICT, FIRST, {"A": ("or", ("and", counted, ("lit", False)), ("lit", False))}) == []
    # A PRIOR that the user has made non-NULL is compared: 2 > 3 fails, 4 > 3 holds.
    given = (">", V, ("coalesce", prior(of("A")), ("lit", 3)))
    assert found(plus(A), "aa", STRICT, FIRST, {"A": given}, v=[2, 4]) == ["A1"]


def test_prior_sees_all_rows_before_the_current_one():
    # The second A wants exactly one B before it.
    one = ("=", prior(("agg", "count", "B", "*", False)), ("lit", 1))
    defines = {"A": letter("A", one), "B": LETTERS["B"]}
    assert found(cat(A, B, A), "aba", STRICT, FIRST, defines) == ["A0 B1 A2"]
    assert found(cat(A, B, B, A), "abba", STRICT, FIRST, defines) == []


def test_running_aggregate_includes_the_candidate():
    # Sums 2; 2 + 2 is too much and ignored; 2 + 1 = 3.
    small = {"A": ("<=", ("agg", "sum", "A", V, False), ("lit", 3))}
    assert found(plus(A), "aaa", NEXT, ALL, small, v=[2, 2, 1]) == ["A0 A2", "A0", "A1 A2", "A1", "A2"]


def test_last_with_offset_is_the_previous_iteration_and_prev_the_physical_neighbour():
    before = ("nav", "LAST", "A", 1, V)
    # LAST(A.v, 1) is NULL on the first iteration; a plain comparison with NULL fails, IS NULL lets it in.
    rising = {"A": ("or", ("is null", before), (">", V, before))}
    assert found(plus(A), "aaa", NEXT, FIRST, rising, v=[1, 0, 2]) == ["A0 A2"]
    physical = {"A": LETTERS["A"], "B": letter("B", ("=", ("prev", 1, ("col", "s")), ("lit", "x")))}
    # Only the b right behind the x, whatever the match has taken before.
    assert found(cat(A, B), "abxb", ANY, ALL, physical) == ["A0 B3"]


# --- the paper's three queries -----------------------------------------------------------------------------------

# Query 3: a[1].volume > 1000, a[i].price > avg(a[..i-1].price), b.volume < 80% of a[a.len].volume; v price, w volume.
STOCK = cat(plus(A), B)
STOCK_DEFINES = {
    "A": (
        "and",
        (">", ("nav", "FIRST", "A", 0, ("col", "w")), ("lit", 1000)),
        (">", V, prior(("agg", "avg", "A", V, False))),
    ),
    "B": ("<", ("*", ("col", "w"), ("lit", 10)), ("*", of("A", "w"), ("lit", 8))),
}
PRICES = [100, 120, 120, 121, 120, 125, 120, 120]
VOLUMES = [1010, 990, 1005, 999, 999, 750, 950, 700]
R1, R2, R3 = "A0 A1 A2 A3 A4 B5", "A2 A3 B5", "A0 A1 A2 A3 A4 A5 A6 B7"


@pytest.mark.parametrize(
    ("strategy", "report", "skip", "expected"),
    [
        # Only rows 0 and 2 have the volume to start. At row 5 (125, 750) the run from 0 may take or proceed: taking
        # goes on to row 7 (R3, preferred), proceeding gives R1. From 2, row 4 (120 > 120.5 fails) is ignored: R2.
        (NEXT, ALL, None, [R3, R1, R2]),
        # Adjacent rows only: R2 needs to pass row 4.
        (STRICT, ALL, None, [R3, R1]),
        # R1 and R2 complete at row 5; R1 starts earlier; nothing starts after row 5.
        (NEXT, ALL, ("past last row",), [R1]),
        (NEXT, FIRST, None, [R3]),
        (NEXT, FIRST, ("to next row",), [R3, R2]),
    ],
)
def test_stock_trend(strategy, report, skip, expected):
    assert found(STOCK, "........", strategy, report, STOCK_DEFINES, PRICES, None, VOLUMES, skip=skip) == expected


def test_stock_trend_skip_till_any():
    # Rows 2..5 alone: 121 may also be ignored; 120 never exceeds an average of 120 or more.
    answer = found(STOCK, "....", ANY, ALL, STOCK_DEFINES, PRICES[2:6], None, VOLUMES[2:6])
    assert answer == ["A0 A1 B3", "A0 B3"]


# Query 1: a shelf reading, no register reading of the same tag, an exit reading of the same tag; v the tag.
SHOP_DEFINES = {
    "A": LETTERS["A"],
    "B": letter("B", ("=", V, of("A"))),
    "C": letter("C", ("=", V, of("A"))),
}


@pytest.mark.parametrize("strategy", [NEXT, ANY])
@pytest.mark.parametrize(
    ("text", "tags", "expected"),
    [
        ("axc", [1, 1, 1], ["A0 C2"]),
        ("abc", [1, 1, 1], []),
        # The register reading is of another tag.
        ("abc", [1, 2, 1], ["A0 C2"]),
        # It stands behind the exit, or before the shelf: not strictly between.
        ("bacb", [1, 1, 1, 1], ["A1 C2"]),
        # Tag 1 paid, tag 2 did not.
        ("aabcc", [1, 2, 1, 1, 2], ["A1 C4"]),
    ],
)
def test_shoplifting(strategy, text, tags, expected):
    assert found(cat(A, NOT_B, C), text, strategy, ALL, SHOP_DEFINES, v=tags) == expected


def test_shoplifting_needs_skipping():
    with pytest.raises(ValueError):
        query(cat(A, NOT_B, C), STRICT)


# Query 2: an alert for a site v, then shipments from w to v, each from where the one before went.
CONTAMINATION_DEFINES = {
    "A": LETTERS["A"],
    "B": letter(
        "B",
        ("=", ("nav", "FIRST", "B", 0, ("col", "w")), of("A")),
        ("=", ("col", "w"), prior(of("B"))),
    ),
}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        # 1->2, then 2->3 or, ignoring that one, 2->4.
        (ANY, ["A0 B1 B2", "A0 B1 B3", "A0 B1"]),
        # 2->3 is accepted and cannot be ignored; 2->4 does not go on from 3.
        (NEXT, ["A0 B1 B2", "A0 B1"]),
        (STRICT, ["A0 B1 B2", "A0 B1"]),
    ],
)
def test_contamination(strategy, expected):
    answer = found(cat(A, plus(B)), "abbb", strategy, ALL, CONTAMINATION_DEFINES, v=[1, 2, 3, 4], w=[None, 1, 2, 2])
    assert answer == expected


# --- negation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "text", "options", "expected"),
    [
        # The first c has no b before it, the second has.
        (cat(A, NOT_B, C), "acbc", {}, ["A0 C1"]),
        # Neighbours are the rows taken: with D, nothing is between A and D; without it, b is between A and C.
        (cat(A, NOT_B, maybe(D), C), "adbc", {}, ["A0 D1 C3"]),
        # At the start: the row before the match is x (2 - 1 < 2); the b at row 0 is out of sight ...
        (cat(NOT_B, A), "bxa", dict(window=("rows", 2)), ["A2"]),
        # ... unless the window is longer.
        (cat(NOT_B, A), "bxa", dict(window=("rows", 3)), []),
        # The distance counts to the last row: 2 - 0 < 3 sees the b, 3 - 0 < 3 does not.
        (cat(NOT_B, A, C), "bac", dict(window=("rows", 3)), []),
        (cat(NOT_B, A, C), "baxc", dict(window=("rows", 3)), ["A1 C3"]),
        # At the end: the window of a match that begins at 0 ends before row 3.
        (cat(A, NOT_B), "axxb", dict(window=("rows", 3)), ["A0"]),
        (cat(A, NOT_B), "axb", dict(window=("rows", 3)), []),
        # The same by time, half-open: 4 - 0 < 4 does not hold.
        (cat(A, NOT_B), "ab", dict(window=("range", 4), ids=[0, 4]), ["A0"]),
        (cat(A, NOT_B), "ab", dict(window=("range", 5), ids=[0, 4]), []),
        # Behind the partition's last row there is nothing to see.
        (cat(A, NOT_B), "xa", dict(window=("rows", 9)), ["A1"]),
        # Two absences between the same neighbours.
        (cat(A, NOT_B, ("neg", "D"), C), "axc", {}, ["A0 C2"]),
        (cat(A, NOT_B, ("neg", "D"), C), "adc", {}, []),
        # A preferred run that fails its negation makes way: the second alternative asks for none.
        (cat(A, alt(cat(NOT_B, C), cat(C, D))), "abcd", dict(report=FIRST), ["A0 C2 D3"]),
        # Without an A the negation stands at the start of what is matched: the b is in the window before c.
        (cat(maybe(A), NOT_B, C), "bc", dict(window=("rows", 5)), []),
        (cat(maybe(A), NOT_B, C), "bac", dict(window=("rows", 5)), ["A1 C2"]),
    ],
)
def test_negation(p, text, options, expected):
    assert found(p, text, ANY, **options) == expected


def test_a_negated_condition_sees_the_finished_match():
    # B looks at C, which comes later: 5 > 9 fails and the match stands, 5 > 1 holds and it falls.
    defines = {**LETTERS, "B": letter("B", (">", V, of("C")))}
    assert found(cat(A, NOT_B, C), "abcc", ANY, ALL, defines, v=[0, 5, 9, 1]) == ["A0 C2"]
    # All of A+ is in sight, also what comes behind the b: sum 2 + 4 > 5.
    defines = {**LETTERS, "B": letter("B", (">", ("agg", "sum", "C", V, False), V))}
    assert found(cat(A, NOT_B, times(C, 2)), "abcc", ANY, ALL, defines, v=[0, 5, 2, 4]) == []
    assert found(cat(A, NOT_B, times(C, 2)), "abcc", ANY, ALL, defines, v=[0, 6, 2, 4]) == ["A0 C2 C3"]


def test_negation_at_an_end_needs_a_window():
    with pytest.raises(ValueError):
        found(cat(A, NOT_B), "ax", ANY)


# --- conjunction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [NEXT, ANY])
@pytest.mark.parametrize(
    ("p", "text", "options", "expected"),
    [
        # Any order.
        (both(A, B), "ab", {}, ["A0 B1"]),
        (both(A, B), "ba", {}, ["B0 A1"]),
        (both(A, B), "aa", {}, []),
        # Interleaved: c stands inside or behind a..b; numbered by the sides' preferment.
        (both(cat(A, B), C), "acbc", {}, ["A0 C1 B2", "A0 B2 C3"]),
        # The window holds both.
        (both(A, B), "axb", dict(window=("rows", 2)), []),
        (both(A, B), "axb", dict(window=("rows", 3)), ["A0 B2"]),
        # One row may serve both sides; a match is its pairs, so these two differ.
        (both(("var", "X"), B), "xb", {}, ["X0 B1", "X1 B1"]),
        # Alternation is looser than &.
        (alt(both(A, B), C), "acb", {}, ["A0 B2", "C1"]),
        # Three sides.
        (both(A, B, C), "cab", {}, ["C0 A1 B2"]),
        # A side may occur emptily; that is not an empty match.
        (both(maybe(A), B), "ba", {}, ["B0 A1", "B0"]),
        # Parentheses: C behind both.
        (cat(("and", [A, B]), C), "abc", {}, ["A0 B1 C2"]),
        (cat(("and", [A, B]), C), "acb", {}, []),
        # A negation inside a side looks between that side's rows: b is not between a and d.
        (both(cat(A, NOT_B, D), C), "cadb", {}, ["C0 A1 D2"]),
        (both(cat(A, NOT_B, D), C), "cabd", {}, []),
        # At the end of a side: from that side's last row to the end of the match's window.
        (both(cat(A, NOT_B), C), "abc", dict(window=("rows", 4)), []),
        (both(cat(A, NOT_B), C), "caxb", dict(window=("rows", 3)), ["C0 A1"]),
    ],
)
def test_conjunction(strategy, p, text, options, expected):
    assert found(p, text, strategy, **options) == expected


def test_conjunction_ignores_side_by_side():
    # The side A+ cannot ignore an a under skip till next, whatever the side B does in between.
    assert found(both(plus(A), B), "aba", NEXT) == ["A0 B1 A2", "A0 B1", "B1 A2"]
    assert found(both(times(A, 2), B), "abaa", NEXT) == ["A0 B1 A2", "B1 A2 A3"]
    assert found(both(times(A, 2), B), "abaa", ANY) == ["A0 B1 A2", "A0 B1 A3", "B1 A2 A3"]


def test_conditions_across_a_conjunction():
    # B looks at A, which comes later.
    defines = {**LETTERS, "B": letter("B", (">", V, of("A")))}
    assert found(both(A, B), "bab", ANY, ALL, defines, v=[5, 3, 2]) == ["B0 A1"]
    # Its own variable is seen running: the first A counts 1 <= 1, a second one 2 <= 1 fails.
    defines = {**LETTERS, "A": letter("A", ("<=", ("agg", "count", "A", "*", False), of("B")))}
    assert found(both(plus(A), B), "aab", ANY, ALL, defines, v=[0, 0, 1]) == ["A0 B2", "A1 B2"]
    # All others are seen finished: B+ sums to 3 in the finished match although A stands before both.
    defines = {**LETTERS, "A": letter("A", ("=", V, ("agg", "sum", "B", V, False)))}
    assert found(both(A, plus(B)), "abb", ANY, ALL, defines, v=[3, 1, 2]) == ["A0 B1 B2"]


def test_ignoring_by_a_condition_across():
    # The side A A asks v > B.v. With B2 (v = 1) the a at row 1 (v = 2) is acceptable and cannot be ignored.
    defines = {**LETTERS, "A": letter("A", (">", V, of("B")))}
    assert found(both(times(A, 2), B), "aaba", NEXT, ALL, defines, v=[5, 2, 1, 5]) == ["A0 A1 B2", "A1 B2 A3"]
    # With v = 3 it is not acceptable, and is ignored.
    assert found(both(times(A, 2), B), "aaba", NEXT, ALL, defines, v=[5, 2, 3, 5]) == ["A0 B2 A3"]


def test_a_shared_row_counts_once():
    q = query(both(("var", "X"), B), ANY)
    q.measures = {
        "rows": ("agg", "count", None, "*", False),
        "x": ("agg", "count", "X", "*", False),
        "b": ("agg", "count", "B", "*", False),
    }
    assert q.output(over("b")) == [(None, {"rows": 1, "x": 1, "b": 1})]


def test_conjunction_wants_all_matches_and_a_skip_till_strategy():
    with pytest.raises(ValueError):
        query(both(A, B), ANY, FIRST)
    with pytest.raises(ValueError):
        query(both(A, B), STRICT)


# --- output and text ---------------------------------------------------------------------------------------------


def test_rows_of_a_match_are_the_matched_ones():
    q = query(cat(A, plus(B)), NEXT, FIRST)
    q.measures = {"n": ("agg", "count", None, "*", False), "label": ("classifier", None), "m": ("match_number",)}
    rows = over("xaxbxb")
    assert q.output(rows) == [(None, {"n": 3, "label": "B", "m": 1})]
    q.mode = measures.SHOW_EMPTY
    assert q.output(rows) == [
        (1, {"n": 1, "label": "A", "m": 1}),
        (3, {"n": 2, "label": "B", "m": 1}),
        (5, {"n": 3, "label": "B", "m": 1}),
    ]
    q.mode = measures.WITH_UNMATCHED
    # A row that the match ignores is an unmatched one.
    assert sorted((row, values["m"]) for row, values in q.output(rows)) == [(0, None), (1, 1), (2, None), (3, 1), (4, None), (5, 1)]


def test_a_match_may_share_rows_with_another():
    q = query(cat(A, B), ANY)
    q.mode, q.measures = measures.SHOW_EMPTY, {"m": ("match_number",)}
    assert q.output(over("abb")) == [(0, {"m": 1}), (1, {"m": 1}), (0, {"m": 2}), (2, {"m": 2})]


def test_text():
    q = Query(
        cat(within(cat(A, plus(B)), 3), ("neg", "C"), D),
        pattern.to_text(cat(within(cat(A, plus(B)), 3), ("neg", "C"), D)),
        {"B": (">", V, prior(("agg", "avg", "B", V, False)))},
        NEXT,
        ALL,
        skip=("past last row",),
        window=("rows", 5),
        measures={"n": ("match_number",)},
    )
    assert q.to_sql().splitlines() == [
        "PARTITION BY p",
        "ORDER BY id",
        "MEASURES MATCH_NUMBER() AS n",
        "ONE ROW PER MATCH",
        "AFTER MATCH SKIP PAST LAST ROW",
        "EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES",
        "PATTERN (((A B+) WITHIN 3) ~C D)",
        "WINDOW 5 ROWS",
        "DEFINE B AS (v > PRIOR(avg(B.v)))",
    ]
    assert pattern.to_text(alt(both(cat(A, B), alt(C, D)), star(both(A, B)))) == "A B & (C | D) | (A & B)*"


# --- against other brute forces ----------------------------------------------------------------------------------


def test_strict_first_is_the_standard():
    """The oracle of the standard part, with the window and without."""
    compared = 0
    for seed in range(600):
        rng = random.Random(seed)
        clause = random_clause(rng)
        rows = random_rows(rng, rng.randrange(1, 9))
        window = rng.choice([None, ("rows", 3), ("range", 5)])
        q = Query(clause.pattern, clause.pattern_text, clause.defines, skip=clause.skip, window=window, mode=clause.mode)
        q.subsets, q.measures = clause.subsets, clause.measures
        reach = window and (("rows", 3) if window[0] == "rows" else ("id", 5))
        try:
            standard = find_matches(rows, clause.pattern, clause.defines, clause.skip, clause.subsets, within=reach)
        except TooManySteps:
            continue
        except SkipTargetError:
            with pytest.raises(SkipTargetError):
                q.find(rows)
            continue
        assert q.output(rows) == measures.output_rows(rows, standard, clause.measures, clause.mode, clause.subsets)
        compared += 1
    assert compared > 400


def _random_letters_pattern(rng, names, depth):
    """Each variable once, no empty loop body: what a row of one letter may do next depends on the rows taken alone."""
    names = list(names)
    if depth == 0 or len(names) == 1:
        p = ("var", names[0])
    else:
        cut = rng.randrange(1, len(names))
        halves = [_random_letters_pattern(rng, part, depth - 1) for part in (names[:cut], names[cut:])]
        p = (rng.choice(["cat", "cat", "alt"]), halves)
    roll = rng.random()
    if roll < 0.45 and not re.fullmatch(to_regex(p, {v: v.lower() for v in "ABCD"}), ""):
        return rng.choice([plus, star, maybe])(p, rng.random() < 0.7)
    return p


def _letters_cases(count):
    for seed in range(count):
        rng = random.Random(seed)
        p = _random_letters_pattern(rng, rng.sample("ABCD", rng.choice([1, 2, 3, 4])), 3)
        text = "".join(rng.choice("abcdx") for _ in range(rng.randrange(1, 8)))
        if rng.random() < 0.3:
            text = text.replace("x", "a").replace("d", "b")
        yield p, text, {v: v.lower() for v in pattern.variables(p)}


def _subsequences(text, reach):
    for n in range(1, len(text) + 1):
        for rows in combinations(range(len(text)), n):
            if rows[-1] - rows[0] < reach:
                yield rows


def _behind(p, variable):
    """(whether nothing of `p` is left behind a row of the variable, the variables that begin again the innermost loop whose body
    ends there or None); None where the variable does not stand in `p`."""
    if p[0] == "var":
        return (True, None) if p[1] == variable else None
    for i, child in enumerate(pattern.children(p)):
        found = _behind(child, variable)
        if found is not None:
            over, again = found
            over &= p[0] != "cat" or i == len(p[1]) - 1
            if again is None and over and p[0] == "rep" and p[3] is None:
                again = _firsts(p[1])
            return over, again
    return None


def _firsts(p):
    if p[0] == "var":
        return {p[1]}
    found = set()
    for child in pattern.children(p):
        found |= _firsts(child)
        if p[0] == "cat" and not re.fullmatch(to_regex(child, {v: v.lower() for v in "ABCD"}), ""):
            break
    return found


@pytest.mark.further
@pytest.mark.parametrize("reach", [99, 4])
def test_all_matches_against_combinations(reach):
    """Skip till any: the subsequences that `re` accepts whole. Skip till next: those of them whose ignored rows could not have
    begun again the loop whose body is over, or else continued the word. Strict: those of adjacent rows."""
    for p, text, letters in _letters_cases(250):
        compiled = re.compile(to_regex(p, letters))
        alphabet = "".join(letters.values())

        def continues(word, compiled=compiled, alphabet=alphabet):
            """Is `word` the beginning of an accepted word? With each letter once, a few more letters decide."""
            frontier = {word}
            for _ in range(len(alphabet) + 1):
                if any(compiled.fullmatch(w) for w in frontier):
                    return True
                frontier = {w + x for w in frontier for x in alphabet}
            return False

        def cannot_ignore(rows, text=text, continues=continues, p=p):
            for i, (a, b) in enumerate(zip(rows, rows[1:])):
                word = "".join(text[r] for r in rows[: i + 1])
                _, again = _behind(p, text[a].upper())
                if again is None and any(continues(word + text[r]) for r in range(a + 1, b)):
                    return True
                if again is not None and any(text[r].upper() in again for r in range(a + 1, b)):
                    return True
            return False

        accepted = [rows for rows in _subsequences(text, reach) if compiled.fullmatch("".join(text[row] for row in rows))]
        for strategy, expected in [
            (ANY, accepted),
            (NEXT, [rows for rows in accepted if not cannot_ignore(rows)]),
            (STRICT, [rows for rows in accepted if rows[-1] - rows[0] == len(rows) - 1]),
        ]:
            answer = query(p, strategy, ALL, window=("rows", reach)).matches(over(text))
            assert all(variable == text[row].upper() for match in answer for row, variable in match)
            positions = [tuple(row for row, _ in match) for match in answer]
            assert sorted(positions) == sorted(expected), (pattern.to_text(p), text, strategy)
            starts = [rows[0] for rows in positions]
            assert starts == sorted(starts)


def _with_gaps(p, letters):
    """`re` source in which a reluctant gap stands before each variable but the first one of the match."""
    if p[0] == "var":
        return rf"(?:\A|(?!\A).*?){letters[p[1]]}"
    if p[0] == "rep":
        _, body, least, most, greedy = p
        return f"(?:(?:{_with_gaps(body, letters)}){{{least},{'' if most is None else most}}}{'' if greedy else '?'})"
    children = [_with_gaps(child, letters) for child in p[1]]
    return f"(?:{'|'.join(children)})" if p[0] == "alt" else "".join(children)


@pytest.mark.further
def test_first_match_under_skip_till_any_against_re():
    """The preferred match of each start row ends where `re` ends with a reluctant gap before each variable."""
    compared = 0
    for p, text, letters in _letters_cases(600):
        compiled = re.compile(_with_gaps(p, letters))
        answer = query(p, ANY, FIRST, skip=("to next row",)).find(over(text))
        ends = {match.start: match.last + 1 if match.pairs else match.start for match in answer}
        for start in range(len(text)):
            hit = compiled.match(text[start:])
            assert ends.get(start) == (hit and start + hit.end()), (pattern.to_text(p), text, start)
            compared += 1
    assert compared > 1000


# --- random queries keep the rules -------------------------------------------------------------------------------


def _random_cases(count, **options):
    for seed in range(count):
        rng = random.Random(seed)
        yield seed, random_query(rng, budget=20_000, **options), random_rows(rng, rng.randrange(1, 8))


def _answer(q, rows):
    try:
        return q.matches(rows)
    except (Budget, SkipTargetError):
        return None


@pytest.mark.further
def test_random_queries_keep_the_rules():
    kinds = set()
    answered = 0
    for seed, q, rows in _random_cases(1200):
        answer = _answer(q, rows)
        if answer is None:
            continue
        answered += 1
        kinds.add((q.strategy, q.report, bool(answer)))
        assert [match for match in answer if not match] == [] or q.report == FIRST, seed
        for match in answer:
            positions = [row for row, _ in match]
            assert positions == sorted(positions)
            if q.strategy == STRICT and match:
                assert positions == list(range(positions[0], positions[0] + len(positions)))
            if q.window and match:
                ends = [rows[row]["id"] if q.window[0] == "range" else row for row in (positions[0], positions[-1])]
                assert ends[1] - ends[0] < q.window[1]
        if q.report == ALL:
            assert len({tuple(match) for match in answer}) == len(answer)
        if q.mode == measures.ONE_ROW:
            assert len(q.output(rows)) == len(answer)
    assert answered > 1000
    assert len(kinds) == 12


@pytest.mark.further
def test_strategies_are_nested():
    """What is a match under a stricter strategy is one under a looser strategy; negation only takes away."""
    for seed, q, rows in _random_cases(600, report=ALL, shapes=("plain",)):
        q.skip = None
        answers = []
        for strategy in (STRICT, NEXT, ANY):
            q.strategy = strategy
            answers.append(_answer(q, rows))
        if None not in answers:
            strict, following, anything = ({tuple(match) for match in answer} for answer in answers)
            assert strict <= following <= anything, seed


@pytest.mark.further
def test_first_match_is_the_best_of_all():
    for seed, q, rows in _random_cases(600, strategy=ANY, report=ALL, shapes=("plain", "negation")):
        q.skip = ("to next row",)
        everything = _answer(q, rows)
        q.report = FIRST
        best = _answer(q, rows)
        if everything is None or best is None:
            continue
        preferred = {}
        for match in everything:
            preferred.setdefault(match[0][0], match)
        for match in best:
            assert not match or preferred[match[0][0]] == match, seed


@pytest.mark.further
def test_conjunction_without_conditions_across_is_a_product():
    """Sides that look at nothing but the row: every pair of occurrences, in the window."""
    for seed in range(200):
        rng = random.Random(seed)
        text = "".join(rng.choice("abcd") for _ in range(rng.randrange(1, 7)))
        left, right = (_random_letters_pattern(rng, names, 2) for names in ("AB", "CD"))
        strategy = rng.choice([NEXT, ANY])
        window = rng.choice([None, ("rows", 3)])

        def occurrences(p, text=text, strategy=strategy):
            nothing = [[]] if re.fullmatch(to_regex(p, {v: v.lower() for v in "ABCD"}), "") else []
            return query(p, strategy).matches(over(text)) + nothing

        expected = set()
        for one in occurrences(left):
            for other in occurrences(right):
                match = tuple(sorted(one + other))
                if match and (window is None or match[-1][0] - match[0][0] < 3):
                    expected.add(match)
        answer = query(both(left, right), strategy, window=window).matches(over(text))
        assert {tuple(match) for match in answer} == expected, seed
