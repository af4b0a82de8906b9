"""The oracle against worked examples, against Python's `re`, and against its own rules."""

import random
import re

import pytest

from tests.oracle import expr, measures, pattern
from tests.oracle.match import SkipTargetError, TooManySteps, find_matches
from tests.oracle.regex import find_spans, to_regex

A, B, C = ("var", "A"), ("var", "B"), ("var", "C")


def star(p, greedy=True):
    return ("rep", p, 0, None, greedy)


def plus(p, greedy=True):
    return ("rep", p, 1, None, greedy)


def maybe(p, greedy=True):
    return ("rep", p, 0, 1, greedy)


def over(text):
    """Rows s = the letters of the text; variables are the upper-case forms of the letters."""
    return [{"id": i, "s": letter} for i, letter in enumerate(text)]


LETTERS = {v: ("=", ("col", "s"), ("lit", v.lower())) for v in "ABC"}


def found(p, text, skip=("past last row",), defines=LETTERS, **options):
    return [(m.start, "".join(m.labels)) for m in find_matches(over(text), p, defines, skip, **options)]


@pytest.mark.parametrize(
    ("p", "text", "expected"),
    [
        (("cat", [A, plus(B)]), "abbab", [(0, "ABB"), (3, "AB")]),
        (("cat", [A, plus(B, False)]), "abbab", [(0, "AB"), (3, "AB")]),
        # The first alternative wins although the second is longer.
        (("alt", [A, ("cat", [A, B])]), "ab", [(0, "A")]),
        (("cat", [("alt", [A, ("cat", [A, B])]), C]), "abc", [(0, "ABC")]),
        # A greedy loop gives rows back.
        (("cat", [star(("alt", [A, B])), B]), "abab", [(0, "ABAB")]),
        (("permute", [A, B, C]), "cab", [(0, "CAB")]),
        # Empty matches take every row that no match begins at.
        (star(A), "baab", [(0, ""), (1, "AA"), (3, "")]),
        (star(A, False), "aa", [(0, ""), (1, "")]),
        (("cat", [("start",), A]), "aa", [(0, "A")]),
        (("cat", [A, ("end",)]), "aa", [(1, "A")]),
        (("empty",), "", []),
        # Empty iterations.
        (("cat", [("rep", maybe(A), 2, None, True), B]), "aaab", [(0, "AAAB")]),
        (("cat", [("rep", maybe(A), 2, None, True), B]), "b", [(0, "B")]),
        (star(("alt", [("empty",), A])), "aa", [(0, ""), (1, "")]),
        (("cat", [star(("alt", [("empty",), A])), B]), "aab", [(0, "AAB")]),
        (("cat", [star(star(A)), B]), "aab", [(0, "AAB")]),
    ],
)
def test_matches(p, text, expected):
    assert found(p, text) == expected


def test_permute_prefers_the_order_of_its_list():
    p = ("permute", [A, B, C])
    assert found(p, "xyz", defines={}) == [(0, "ABC")]
    assert found(p, "xyc", defines={"B": LETTERS["C"]}) == [(0, "ACB")]
    assert found(p, "cxy", defines={"A": LETTERS["B"], "C": LETTERS["C"]}) == []


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        (("past last row",), [(0, "AAB"), (3, "AB")]),
        (("to next row",), [(0, "AAB"), (1, "AB"), (3, "AB")]),
        (("to last", "A"), [(0, "AAB"), (1, "AB"), (3, "AB")]),
        (("to first", "B"), [(0, "AAB"), (3, "AB")]),
        (("to last", "S"), [(0, "AAB"), (3, "AB")]),
    ],
)
def test_skip(skip, expected):
    if skip == ("to last", "A"):
        # The second match would resume at its own first row.
        with pytest.raises(SkipTargetError):
            found(("cat", [plus(A), B]), "aabab", skip)
        expected, text = [(0, "AAB")], "aab"
        p = ("cat", [A, A, B])
    else:
        p, text = ("cat", [plus(A), B]), "aabab"
    assert found(p, text, skip, subsets={"S": ("B", "C")}) == expected


def test_skip_to_nowhere_is_an_error():
    p = ("cat", [A, maybe(C), B])
    with pytest.raises(SkipTargetError, match="mapped to C"):
        found(p, "ab", ("to first", "C"))
    with pytest.raises(SkipTargetError, match="first row"):
        found(p, "ab", ("to first", "A"))
    assert found(p, "acb", ("to first", "C")) == [(0, "ACB")]


def test_skip_target_does_not_concern_an_empty_match():
    assert found(star(A), "bb", ("to last", "A")) == [(0, ""), (1, "")]


def test_window_bounds_the_search():
    # The run of three dies, so the less preferred pair is the match.
    assert found(plus(A), "aaa", within=("rows", 2)) == [(0, "AA"), (2, "A")]
    assert found(("cat", [A, star(B), C]), "abbc", within=("rows", 3)) == []


def test_step_budget():
    p = plus(plus(plus(A)))
    with pytest.raises(TooManySteps):
        found(("cat", [p, B]), "a" * 30, budget=1000)


# --- expressions ------------------------------------------------------------------------------------------------

ROWS = [{"id": i, "v": v, "w": w} for i, (v, w) in enumerate([(5, 1), (3, None), (4, 2), (7, 0), (None, 9), (2, 2)])]


def context(labels="ABBC", start=1, subsets=None):
    return expr.Context(ROWS, start, tuple(labels), 3, subsets or {"S": ("A", "C")})


def nav(end, var, offset=0, column="v"):
    return ("nav", end, var, offset, ("col", column))


@pytest.mark.parametrize(
    ("e", "seen", "expected"),
    [
        (("col", "v"), 3, 7),
        (nav("LAST", "B"), 3, 7),
        (nav("LAST", "B"), 2, 4),
        (nav("FIRST", "B"), 1, None),
        (nav("FIRST", "B", 1), 4, 7),
        (nav("FIRST", "B", 2), 4, None),
        (nav("LAST", "B", 1), 4, 4),
        (nav("FIRST", "S", 1, "w"), 4, 9),
        (nav("LAST", None, 3), 4, 3),
        (nav("LAST", None, 4), 4, None),
        (("final", nav("LAST", None, 0, "id")), 1, 4),
        (("running", nav("LAST", None, 0, "id")), 1, 1),
        (("prev", 1, ("col", "v")), 1, 5),
        (("prev", 2, ("col", "v")), 1, None),
        (("next", 1, ("col", "v")), 4, 2),
        (("prev", 0, ("col", "v")), 1, 3),
        (("prev", 1, nav("FIRST", "B")), 4, 3),
        (("next", 1, nav("LAST", "C")), 3, None),
        (("next", 1, ("final", nav("LAST", "C"))), 1, 2),
        # Past the partition the whole operation is NULL, whatever its argument makes of NULL.
        (("prev", 2, ("coalesce", ("col", "v"), ("lit", 1))), 1, None),
        (("agg", "count", None, "*", False), 4, 4),
        (("agg", "count", "B", "*", False), 2, 1),
        (("final", ("agg", "count", "B", "*", False)), 1, 2),
        (("agg", "count", None, ("col", "v"), False), 4, 3),
        (("agg", "sum", "B", ("+", ("col", "v"), ("col", "w")), False), 4, 13),
        (("agg", "sum", "C", ("col", "v"), False), 4, None),
        (("agg", "sum", None, ("col", "v"), False, (">", ("col", "w"), ("lit", 0))), 4, 4),
        (("agg", "count", None, "*", False, ("=", ("col", "v"), ("lit", 1))), 4, 0),
        (("agg", "count", None, ("col", "w"), True), 4, 3),
        (("agg", "avg", "B", ("col", "v"), False), 4, 5.5),
        (("agg", "min", "S", ("col", "w"), False), 4, 9),
        (("classifier", None), 4, "C"),
        (("classifier", "S"), 3, "A"),
        (("classifier", "B"), 1, None),
        (("nav", "LAST", None, 1, ("classifier", None)), 4, "B"),
        (("match_number",), 1, 3),
        (("and", ("lit", None), ("lit", False)), 1, False),
        (("and", ("lit", None), ("lit", True)), 1, None),
        (("or", ("lit", None), ("lit", True)), 1, True),
        (("or", ("lit", False), ("lit", None)), 1, None),
        (("not", ("lit", None)), 1, None),
        (("is null", ("col", "w")), 1, True),
        (("=", ("col", "w"), ("lit", None)), 1, None),
        (("coalesce", ("col", "w"), ("lit", 6)), 1, 6),
        (("-", ("*", ("col", "v"), ("lit", 2)), ("lit", 1)), 1, 5),
    ],
)
def test_value(e, seen, expected):
    assert expr.evaluate(e, context(), seen) == expected


def test_values_of_an_empty_match():
    empty = context("")
    assert expr.evaluate(("col", "v"), empty) is None
    assert expr.evaluate(("prev", 1, ("col", "v")), empty) is None
    assert expr.evaluate(("classifier", None), empty) is None
    assert expr.evaluate(("agg", "count", None, "*", False), empty) == 0
    assert expr.evaluate(("agg", "sum", None, ("col", "v"), False), empty) is None
    assert expr.evaluate(("match_number",), empty) == 3


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (("nav", "LAST", "A", 0, ("col", "v")), "A.v"),
        (("nav", "LAST", "A", 1, ("+", ("col", "v"), ("col", "w"))), "LAST((A.v + A.w), 1)"),
        (("nav", "FIRST", None, 0, ("col", "v")), "FIRST(v)"),
        (("nav", "FIRST", "A", 0, ("classifier", None)), "FIRST(CLASSIFIER(A))"),
        (("prev", 2, ("nav", "LAST", "A", 0, ("col", "v"))), "PREV(A.v, 2)"),
        (("final", ("nav", "LAST", "A", 0, ("col", "v"))), "FINAL LAST(A.v)"),
        (("agg", "count", "A", "*", False), "count(A.*)"),
        (("agg", "sum", "A", ("col", "v"), True), "sum(DISTINCT A.v)"),
        (("agg", "count", "A", "*", False, ("is null", ("col", "v"))), "count(A.*) FILTER (WHERE (A.v IS NULL))"),
        (("and", ("is null", ("col", "v")), ("not", ("lit", True))), "((v IS NULL) AND (NOT TRUE))"),
        (("=", ("classifier", None), ("lit", "A")), "(CLASSIFIER() = 'A')"),
    ],
)
def test_expression_text(e, text):
    assert expr.to_sql(e) == text


def test_define_sees_the_candidate_row():
    rows = [{"id": i, "v": v} for i, v in enumerate([1, 2, 3, 1])]
    small_sum = ("<=", ("agg", "sum", "A", ("col", "v"), False), ("lit", 3))
    matches = find_matches(rows, plus(A), {"A": small_sum})
    assert [(m.start, m.labels) for m in matches] == [(0, ("A", "A")), (2, ("A",)), (3, ("A",))]
    seen = []

    def record(ctx):
        seen.append((ctx.number, ctx.start, ctx.labels))
        return ctx.rows[ctx.start + len(ctx.labels) - 1]["v"] < 3

    find_matches(rows, ("cat", [A, A]), {"A": record})
    assert seen == [(1, 0, ("A",)), (1, 0, ("A", "A")), (2, 2, ("A",)), (2, 3, ("A",))]


# --- rows out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (measures.ONE_ROW, [(None, 1, None, 0), (None, 2, "B", 2), (None, 3, None, 0)]),
        (measures.SHOW_EMPTY, [(0, 1, None, 0), (1, 2, "A", 1), (2, 2, "B", 2), (3, 3, None, 0)]),
        (measures.OMIT_EMPTY, [(1, 2, "A", 1), (2, 2, "B", 2)]),
    ],
)
def test_rows_with_empty_matches(mode, expected):
    rows = over("cabc")
    p = maybe(("cat", [A, B]))
    wanted = {"n": ("match_number",), "c": ("classifier", None), "k": ("agg", "count", None, "*", False)}
    out = measures.output_rows(rows, find_matches(rows, p, LETTERS), wanted, mode)
    assert [(row, m["n"], m["c"], m["k"]) for row, m in out] == expected


def test_rows_of_no_match():
    rows = over("cabc")
    wanted = {"n": ("match_number",), "k": ("agg", "count", None, "*", False)}
    matches = find_matches(rows, ("cat", [A, B]), LETTERS)
    out = measures.output_rows(rows, matches, wanted, measures.WITH_UNMATCHED)
    assert [(row, m["n"], m["k"]) for row, m in out] == [(0, None, None), (1, 1, 1), (2, 1, 2), (3, None, None)]


def test_excluded_rows_are_hidden_but_counted():
    rows = over("abbc")
    p = ("cat", [A, ("excl", plus(B)), C])
    wanted = {"k": ("agg", "count", None, "*", False)}
    matches = find_matches(rows, p, LETTERS)
    assert measures.output_rows(rows, matches, wanted, measures.SHOW_EMPTY) == [(0, {"k": 1}), (3, {"k": 4})]
    assert measures.output_rows(rows, matches, wanted, measures.ONE_ROW) == [(None, {"k": 4})]


# --- pattern text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (("cat", [A, plus(B), star(C, False)]), "A B+ C*?"),
        (("cat", [("alt", [A, B]), C]), "(A | B) C"),
        (("alt", [("cat", [A, B]), C]), "A B | C"),
        (maybe(maybe(A, False)), "(A??)?"),
        (("rep", ("cat", [A, B]), 2, 3, False), "(A B){2,3}?"),
        (("rep", A, 2, 2, True), "A{2}"),
        (("rep", A, 0, 3, True), "A{,3}"),
        (("permute", [A, ("cat", [B, C])]), "PERMUTE(A, B C)"),
        (("cat", [("start",), ("excl", ("alt", [A, B])), ("end",)]), "^ {- A | B -} $"),
        (star(("end",)), "($)*"),
        (("alt", [("empty",), A]), "() | A"),
    ],
)
def test_pattern_text(p, text):
    assert pattern.to_text(p) == text


# --- against Python's re ----------------------------------------------------------------------------------------


def random_letters(rng, names, alphabet):
    """Sets of letters that may overlap, so that preference decides between variables; some accept anything."""
    letters = {}
    for name in names:
        if rng.random() < 0.9:
            letters[name] = "".join(sorted(rng.sample(alphabet, rng.choice([1, 1, 1, 2]))))
    return letters


def accepting(some):
    return lambda c: c.rows[c.start + len(c.labels) - 1]["s"] in some


@pytest.mark.further
def test_spans_agree_with_re():
    # No form of pattern is left out: `re` and the oracle have the same rule for empty iterations.
    rng = random.Random(20_250_101)
    cases = skipped = nonempty = 0
    for _ in range(4_000):
        names = ["A", "B", "C", "D"][: rng.randrange(1, 5)]
        p = pattern.random_pattern(rng, names, rng.randrange(1, 5))
        letters = random_letters(rng, names, "abc")
        defines = {v: accepting(some) for v, some in letters.items()}
        for _ in range(3):
            text = "".join(rng.choice("abc") for _ in range(rng.randrange(0, 9)))
            cases += 1
            try:
                matches = find_matches(over(text), p, defines)
            except TooManySteps:
                skipped += 1
                continue
            spans = [(m.start, m.stop) for m in matches]
            nonempty += any(b > a for a, b in spans)
            assert spans == find_spans(p, letters, text), (pattern.to_text(p), letters, text, to_regex(p, letters))
    assert skipped < cases * 0.05
    assert nonempty > cases * 0.2


def test_re_reads_the_text_as_built():
    # A quantifier after a quantified group must not turn possessive.
    assert re.fullmatch(to_regex(plus(plus(A)), {"A": "a"}), "aaa")
    assert find_spans(("cat", [("start",), A]), {"A": "a"}, "aa") == [(0, 1)]
