"""Patterns tried over rows of letters: what is found, how it is shown, what is said of rows and cases that cannot be read."""

from __future__ import annotations

import random
import re

import pytest

import sparkcep
from sparkcep.cli.cases import CaseError, cases, failures
from sparkcep.cli.cli import main
from sparkcep.errors import ClauseError

V = """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY s ORDER BY ts MEASURES LAST(UP.price) AS p
  {skip} PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""


def taken(text: str, rows: str) -> list[str]:
    return [" ".join(f"{row}:{variable}" for row, variable in match.taken) for match in sparkcep.preview(text, rows).matches]


@pytest.mark.parametrize("pattern", ["A B+ C?", "(A | B)+? C", "A{2,3}", "(A B | A)+ C", "C (A B*)* C"])
def test_the_matches_are_those_of_regular_expressions(pattern):
    random.seed(pattern)
    expression = re.compile(pattern.replace(" ", ""))
    for _ in range(20):
        word = "".join(random.choices("ABC", k=12))
        found = [match.rows for match in sparkcep.preview(pattern, " ".join(c if c in pattern else "." for c in word)).matches]
        assert found == [tuple(range(m.start() + 1, m.end() + 1)) for m in expression.finditer(word)], word


def test_options_of_the_statement_hold():
    assert taken(V.format(skip=""), ". DOWN UP DOWN UP .") == ["1:STRT 2:DOWN 3:UP"]
    assert taken(V.format(skip="AFTER MATCH SKIP TO LAST UP"), ". DOWN UP DOWN UP .") == ["1:STRT 2:DOWN 3:UP", "3:STRT 4:DOWN 5:UP"]
    every = "EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A {} B) WINDOW {}"
    assert taken(every.format("", "3"), "A@0 B@2 . B@9 A B|A B@13") == ["1:A 2:B", "5:A 6:B", "6:A 7:B"]
    assert taken(every.format("", "INTERVAL '3' SECOND"), "A@0 B@2 . B@9") == ["1:A 2:B"]
    assert taken(every.format("~C", "9"), "A B C B") == ["1:A 2:B"]
    assert taken("EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A & B) WINDOW 2", "AB") == ["1:A 1:B"]
    assert taken("PATTERN (A B C) APPROX 1 WINDOW 5", "A C") == ["1:A 2:C"]


def test_rows_are_the_variables_of_sequences():
    found = sparkcep.preview("AFTER MATCH SKIP TO LAST s SEQUENCE s AS (A B+) WITHIN 5 PATTERN (s C)", "A B C A@9 B@14 C@15 A B C")
    assert [match.rows for match in found.matches] == [(1, 2, 3), (7, 8, 9)]


def test_unfinished_matches_are_left_out():
    shown = "MEASURES MATCH_STATUS() AS s {} SHOW UNFINISHED MATCHES PATTERN (A B) WINDOW 3"
    for rows in ("ONE ROW PER MATCH", "ALL ROWS PER MATCH"):
        assert taken(shown.format(rows), "A B A . A") == ["1:A 2:B"]


def test_the_case_of_a_variable_does_not_matter():
    assert taken("PATTERN (down up+) DEFINE DOWN AS p < 1, UP AS p > 1", ". . .") == []
    assert taken("PATTERN (down up+) DEFINE DOWN AS p < 1, UP AS p > 1", "DOWN up . up") == ["1:down 2:up"]
    assert taken("A B | a", "A B a .") == ["1:A 2:B", "3:A"]


@pytest.mark.parametrize(("text", "place"), [
    ("A ~B", (1, 3, "~B")),
    ("A B{3,2}", (1, 4, "{3,2}")),
    ("ORDER BY i AFTER MATCH SKIP TO C PATTERN (A B)", (1, 32, "C")),
    ("ORDER BY i AFTER MATCH SKIP TO FIRST A PATTERN (A B)", (1, 38, "A")),
    ("MEASURES A.x AS y\nPATTERN (A B)\nSUBSET S = (A, X)", (3, 16, "X")),
    (V.format(skip="AFTER MATCH SKIP TO FIRST STRT"), (2, 29, "STRT")),
])  # fmt: skip
def test_an_error_has_its_place_in_the_text_that_was_given(text, place):
    with pytest.raises(ClauseError) as caught:
        sparkcep.preview(text, "A B" if "A B" in text or "A ~B" in text else "STRT DOWN UP")
    assert (caught.value.line, caught.value.column, caught.value.fragment) == place


def test_matches_are_shown_below_their_rows():
    shown = str(sparkcep.preview("LOW HIGH+", "LOW HIGH . LOW HIGH|LOW".split()))
    assert shown.splitlines() == [
        "row      1    2     3  4    5",
        "         LOW  HIGH  .  LOW  HIGH|LOW",
        "match 1  LOW  HIGH",
        "match 2                LOW  HIGH",
    ]
    assert str(sparkcep.preview("A B", "B A")).endswith("no match")


def test_rows_may_have_one_time():
    assert [match.taken for match in sparkcep.preview("A B", "A@5 B@5").matches] == [((1, "A"), (2, "B"))]


@pytest.mark.parametrize(
    ("text", "rows", "said"),
    [
        ("A B", "A X", "the row 'X' has X, which is not a variable of the pattern; the variables are A, B"),
        ("LOW HIGH", "LOW HIHG|LOW", "did you mean HIGH"),
        ("A B", "A@x", "cannot be read"),
        ("A B", "A@5 B@3", "row 2 has the time 3"),
        ("A (B", "A", "SYNTAX"),
        ("PATTERN (A B) WINDOW 5 ROWS SLIDE 1 ROWS PREF MAX (A.v) TOP 1", "A", "run the statement over a few rows"),
        ("PATTERN (A B) APPROX 1 WINDOW 5 ROWS SLIDE 2 ROWS TOP 1", "A", "sliding windows read values: run the statement over a few rows"),
        ("EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) WINDOW 9 CHANGES IN op", "A", "changes and sliding windows read values"),
        ("PATTERN (A B) WINDOW 3 APPROX 1 MATCH HISTORY", "A", "run the statement over a few rows"),
        ("EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES SEQUENCE s AS (A B) WITHIN 5 UPDATE 1 PATTERN (s)", "A", "run the statement over a few rows"),
        ("PATTERN (A B) WINDOW 5 ROWS SLIDE 1 ROWS", "A", "SLIDE_WITHOUT_TOP"),
        ("SELECT 1", "A", "PREVIEW|SYNTAX"),
    ],
)
def test_what_cannot_be_previewed_is_said(text, rows, said):
    with pytest.raises(ClauseError, match=said):
        sparkcep.preview(text, rows)


def test_cases_are_read():
    (one, two, none) = cases("# about\n. A B -> 2-3, 4:A 5:b  # two\n\nA->1 3\nB -> none\n")
    assert (one.line, one.rows, one.matches) == (2, ". A B", (((range(2, 4), None),), ((range(4, 5), "A"), (range(5, 6), "b"))))
    assert (two.matches, none.matches) == ((((range(1, 2), None), (range(3, 4), None)),), ())
    for text, said in (
        ("A B", "line 1: write ROWS -> MATCHES"), ("\nA -> x", "line 2: 'x' is not a row"), ("A ->", "line 1: write"), ("A -> 3-1", "line 1: '3-1' ends before it begins; write 1-3"),
        (f"A -> {'9' * 5000}", "is not a row of a match"),
    ):
        with pytest.raises(CaseError, match=said):
            list(cases(text))


def test_what_does_not_hold_is_shown():
    count, told = failures("A B+", "A B B -> 1-2\nA B -> 1:A 2:B\nB A -> 1-2\nA B -> 1:B 2:B\n")
    assert (count, len(told)) == (4, 3)
    assert told[0].splitlines()[:3] == ["line 1: A B B", "  expected  1-2", "  came      1:A 2:B 3:B"]
    assert "came      none" in told[1] and told[2].startswith("line 4")


def test_a_range_of_many_rows_takes_no_memory():
    count, told = failures("A", "A -> 1-999999999\nA -> 1-999999999 1-999999999\nA -> 1\n")
    assert count == 3 and [text.splitlines()[1] for text in told] == ["  expected  1-999999999", "  expected  1-999999999 1-999999999"]


def test_at_the_command_line(tmp_path, capsys):
    assert main(["preview", "A B+", "A B B"]) == 0
    assert "match 1  A  B  B" in capsys.readouterr().out
    assert main(["preview", "A (", "A"]) == 2 and "SYNTAX" in capsys.readouterr().err
    (tmp_path / "v.sql").write_text(V.format(skip=""))
    (tmp_path / "v.cases").write_text(". DOWN UP -> 1-3\n")
    assert main(["test", str(tmp_path / "v.sql")]) == 0 and "1 of 1 cases pass" in capsys.readouterr().out
    (tmp_path / "v.cases").write_text(". DOWN UP -> 1-2\n")
    assert main(["test", str(tmp_path / "v.sql")]) == 1
    out = capsys.readouterr().out
    assert "0 of 1 cases pass" in out and out.splitlines()[-1].startswith("docs/no_match.md shows the usual causes")
    assert main(["test", "sql_examples/v_shape.sql"]) == 0
    (tmp_path / "v.cases").write_text(". DOWN UP\n")
    assert main(["test", str(tmp_path / "v.sql")]) == 2 and "v.cases, line 1: write ROWS -> MATCHES" in capsys.readouterr().err
    (tmp_path / "v.cases").write_text("A -> 1\n")
    (tmp_path / "v.sql").write_text("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A)")
    assert main(["test", str(tmp_path / "v.sql")]) == 2 and "v.sql: [SPARKCEP.SYNTAX]" in capsys.readouterr().err


def test_a_command_that_is_misspelled_is_offered(capsys):
    with pytest.raises(SystemExit):
        main(["previw", "A B+", "A B B"])
    assert "unknown command previw; did you mean preview?" in capsys.readouterr().err


def test_an_error_of_a_pattern_alone_has_its_place_in_it():
    with pytest.raises(ClauseError) as caught:
        sparkcep.preview("A (B | )", "A B")
    assert (caught.value.line, caught.value.column, caught.value.fragment) == (1, 8, ")")
