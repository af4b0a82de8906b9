"""Positional parameters of a statement, and quantifiers, which are written in the same way."""

from __future__ import annotations

import pytest

from sparkcep.settings import DEFAULT
from sparkcep.sql.rewrite.rewrite import double_braces, name_markers, translated, unmarked


@pytest.mark.parametrize(
    "pattern",
    [
        "A?? B{1,2}?", "((A B+) WITHIN 1!)", "((A B?) WITHIN 1!)", "(A B) WITHIN 1!?", "(A B) WITHIN 1! ?", "((A B) WITHIN 1! )?", "(A B) WITHIN 1! + 5 ?", "(A B) WITHIN 1! ROWS??",
        "((A (B C?) WITHIN INTERVAL 1! SECONDS)?? D) WITHIN 2! ROWS?", "(A?) WITHIN 1! | (B?) within 2!", "{- (A) WITHIN 1! -}?", "PERMUTE(A, B) WITHIN ?", "((A B+) WITHIN (1 + 1!))?", "(A B?) WITHIN (1! * (2! - 1))+?", "() WITHIN ?",
    ],
)  # fmt: skip
def test_quantifiers_are_not_markers(pattern):
    """A number before ! is that of a marker of the pattern."""
    count = pattern.count("!")
    marked = pattern.replace("1!", "?").replace("2!", "?")
    named = pattern.replace("1!", ":sparkcep_marker_1").replace("2!", ":sparkcep_marker_2")
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i PATTERN (%s) WINDOW %s DEFINE A AS x > %s)"
    assert name_markers(text % (marked, "?", "?")) == text % (named, f":sparkcep_marker_{count + 1}", f":sparkcep_marker_{count + 2}")


def test_patterns_of_sequences():
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i SEQUENCE s AS (A?? (B) WITHIN %s) WITHIN %s SEQUENCE r AS (C{1,2}) PATTERN (s? r))"
    first, second = (f":sparkcep_marker_{i}" for i in (1, 2))
    assert name_markers(text % ("?", "?")) == text % (first, second)
    assert double_braces(text) == text.replace("{1,2}", "{{1,2}}")


def test_a_pattern_that_cannot_be_read_has_quantifiers_alone():
    text = "SELECT ? FROM t MATCH_RECOGNIZE (PATTERN ((A |) WITHIN ?))"
    assert name_markers(text) == text.replace("SELECT ?", "SELECT :sparkcep_marker_1")


def test_a_marker_ends_before_the_next_word():
    text = "SELECT ?AS a FROM t WHERE x >?AND y < ? AND z"
    named = name_markers(text)
    assert named == "SELECT :sparkcep_marker_1/**/AS a FROM t WHERE x >:sparkcep_marker_2/**/AND y < :sparkcep_marker_3 AND z"
    assert [text[unmarked(named.index(word), named) :][: len(word)] for word in ("AS a", "AND y", "AND z")] == ["AS a", "AND y", "AND z"]


def test_the_column_of_a_key_is_named_as_it_is_written():
    places = translated("SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY g % ? ORDER BY t MEASURES count(*) AS n PATTERN (A))", settings=DEFAULT, named_markers=True)
    assert places is not None and "AS `g % ?`" in places.rewritten and ":sparkcep_marker_1 AS __p0" in places.rewritten
