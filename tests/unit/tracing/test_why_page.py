"""The HTML form of sparkcep.why: whole pages without a script, with timelines, and everything that the text says."""

from __future__ import annotations

import datetime
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pytest

from sparkcep.draw.timeline import ASKED, Bar, Lane, Mark, Timeline, svg
from sparkcep.tracing.answers.explain import Asked, explain
from sparkcep.tracing.forms.blocks import blocks
from sparkcep.tracing.forms.timelines import chosen
from sparkcep.tracing.rows.frozen import FrozenRows, shown_column
from tests.support.pages import Parsed, check, text_of
from tests.support.why_examples import EXAMPLES, Example, frozen, question
from tests.support.why_kinds import EXAMPLES as KINDS
from tests.support.why_kinds import answered as answered_kind
from tests.unit.tracing.test_why import BY_NAME, answered

ROOT = Path(__file__).resolve().parents[3]
SVG = "{http://www.w3.org/2000/svg}"


def words(text: str) -> str:
    """A text without blanks, bars of # and the heads of tables."""
    return re.sub(r"\s|#", "", text)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_page_says_what_the_text_says(example):
    """Each word of the text form is on the page, in its order. Pages are whole, and load nothing."""
    why = answered(example)
    page = check(why.to_html())
    said = words("".join(text for path, text in page.texts if "body" in path and "style" not in path and "svg" not in path))
    at = 0
    for line in example.text.split("\n"):
        for word in re.split("  |: ", line):
            if words(word) and not word.strip("#") == "":
                found = said.find(words(word), at)
                assert found >= 0, (word, said[at:])
                at = max(at, found)
    assert page.count("svg") == len(why.timelines)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_cell_is_one_element_with_its_own_styles(example):
    """A notebook's page keeps its own styles: each rule of the cell begins with the cell's class, or is of its pictures."""
    cell = Parsed()
    cell.feed(answered(example)._repr_html_())
    cell.close()
    assert cell.open == [] and cell.elements[0] == (
        "div",
        {"class": "cep-why tex2jax_ignore mathjax_ignore", "style": "padding: .8rem 1rem"},
    )
    assert not [
        attributes for _, attributes in cell.elements if "id" in attributes or any(name.startswith("on") for name in attributes)
    ]
    styles = "".join(text for path, text in cell.texts if path[-1:] == ("style",))
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"@media[^{]*\{", "", styles))
    assert rules and all(part.strip().startswith((".cep-why", ".why-")) for rule in rules for part in rule.split(","))


def picture(name: str, **options) -> ET.Element:
    (timeline,) = answered(BY_NAME[name], **options).timelines
    return ET.fromstring(svg(timeline))


def drawn(root: ET.Element, kind: str) -> list[str]:
    """The texts of a class."""
    return [element.text for element in root.iter(f"{SVG}text") if kind in element.get("class", "").split()]


def test_the_timeline_of_a_run():
    root = picture("E1")
    assert root.find(f"{SVG}title").text == "Row 1 (day 1) is in no match."
    assert drawn(root, "why-m") == ["row", "day", "price", "volume", "price", "this run", "match 1"]
    assert drawn(root, "why-b")[:11] == ["1", "2", "3", "4", "5", "6", "7", "8", "STRT", "DOWN", "UP"]
    assert drawn(root, "why-b")[11:] == ["STRT", "DOWN", "DOWN", "UP"]  # match 1
    assert drawn(root, "why-w") == ["\u2713", "\u2713"] and drawn(root, "why-bad") == ["NULL", "? NULL", "ended"]
    tips = [element.text for element in root.iter(f"{SVG}title")]
    assert "price < PREV(price): 8 < 9: true; volume > 1000: NULL > 1000: NULL" in tips
    bands = {e.get("class"): float(e.get("x")) for e in root.iter(f"{SVG}rect") if e.get("class") in ("why-asked", "why-ended")}
    assert 0 < bands["why-asked"] < bands["why-ended"]
    assert len(list(root.iter(f"{SVG}circle"))) == 8


def test_the_end_of_the_partition_has_a_column():
    root = picture("E3")
    assert drawn(root, "why-bad") == ["end"]
    assert [e.get("class") for e in root.iter(f"{SVG}rect") if "why-ended" in e.get("class")] == ["why-ended"]


def test_a_match_shows_what_was_refused():
    (timeline,) = answered(BY_NAME["E9"]).timelines
    assert (timeline.run_name, timeline.run, timeline.ended) == ("match 1", (1, 2, 3, 4, 5), 6)
    assert {lane.name: (sorted(lane.taken), sorted(lane.marks)) for lane in timeline.lanes} == {
        "STRT": ([1], []),
        "DOWN": ([2, 3], [4]),
        "UP": ([4, 5], [6]),
    }


def test_a_variable_that_is_asked_about():
    (timeline,) = answered(BY_NAME["E10"]).timelines
    (lane,) = [lane for lane in timeline.lanes if lane.name == "B"]
    assert lane.marks == {2: Mark(ASKED, "v > 4: 5 > 4: true")} and timeline.asked == 2 and timeline.run == (1,)


def test_a_row_outside_of_the_window():
    (timeline,) = answered(BY_NAME["E4"]).timelines
    assert [(lane.name, lane.marks[3].words) for lane in timeline.lanes] == [("A", "WINDOW"), ("B", "WINDOW")]


def test_a_lost_match_has_a_bar():
    (timeline,) = answered(BY_NAME["E6"]).timelines
    assert {bar.name: bar.labels for bar in timeline.bars} == {"match 1": {1: "A", 2: "B", 3: "A"}, "lost match": {3: "A", 4: "C"}}


def test_near_misses_are_small_timelines():
    why = answered(BY_NAME["E14"])
    assert [timeline.bars[0].labels for timeline in why.timelines] == [{1: "F", 2: "F", 3: "F"}, {2: "F", 3: "F", 4: "F"}]
    assert [timeline.bars[0].wrong for timeline in why.timelines] == [{3: "row 3 taken as F"}] * 2
    assert [why.lines[timeline.line].strip() for timeline in why.timelines] == [timeline.about for timeline in why.timelines]


@pytest.mark.parametrize(
    "miss, labels, wrong",
    [
        ("1 a; 2 c", {1: "A", 2: "C"}, {1: "B missing after row 1"}),
        ("1 a; 2 x; 3 b; 4 c", {1: "A", 3: "B", 4: "C"}, {2: "row 2 is one too many"}),
    ],
)
def test_near_misses_of_each_kind(miss, labels, wrong):
    clause = "ORDER BY t PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'"
    bars = [timeline.bars[0] for timeline in answered(Example("", clause, "t e", miss, "")).timelines]
    assert (labels, wrong) in [(bar.labels, bar.wrong) for bar in bars]


def test_redacted_timelines_have_no_line_and_no_values():
    shown = picture("E1", redact="values")
    assert not list(shown.iter(f"{SVG}polyline")) and "v1" in drawn(shown, "why-t") and drawn(shown, "why-bad")[0] == "NULL"
    (timeline,) = answered(BY_NAME["E1"], redact="all").timelines
    assert [name for name, _ in timeline.values] == ["day"] and timeline.series is None
    assert timeline.lanes[1].marks[3].words == "price < PREV(price): true; volume > 1000: NULL"


def test_three_rows_have_pictures():
    example = BY_NAME["E3"]
    why = explain(frozen(question(example.measured), example.names, example.values, "day"), Asked((0, 1, 2)))
    assert [timeline.asked for timeline in why.timelines] == [1, 2, 3]
    assert [block.text for block in blocks(why.lines, why.timelines) if block.kind == "heading"] == [
        f"Row {n} (day {n}) is in no match." for n in (1, 2, 3)
    ]
    assert check(why.to_html()).count("svg") == 3


def test_an_answer_without_a_picture(monkeypatch):
    from sparkcep.tracing.search.trace import Trace

    monkeypatch.setattr(Trace, "truth", lambda self, comparison, row, run: True)
    why = answered(BY_NAME["E9"])
    page = check(why.to_html())
    assert why.timelines == () and page.count("svg") == 0 and "This is a bug of sparkcep." in text_of(page)


@pytest.mark.parametrize(
    "around, count, wanted",
    [
        ([0], 5, [0, 1, 2, 3, 4]),
        ([500, 502], 1_000, list(range(497, 506))),
        ([3, 10_000], 10_000, [*range(7), *range(9_994, 10_000)]),
        ([5, 200, 90], 1_000, [*range(2, 9), *range(195, 204)]),
        ([999], 1_000, list(range(996, 1_000))),
        ([], 0, []),
    ],
)
def test_chosen_rows(around, count, wanted):
    assert chosen(around, count) == wanted and len(wanted) <= 60
    assert chosen([5, 200], 1_000, asked=90) == [*range(2, 9), *range(87, 94), *range(195, 204)]


def test_texts_of_rows_are_escaped_and_cut():
    """Names and values of users are text in the picture and on the page."""
    name, value = "<b>&\"'", "<script>alert(1)</script>" * 3
    timeline = Timeline(
        name,
        0,
        (1, 2, 9),
        12,
        ((name, (value, None, "x")),),
        None,
        (Lane(name, frozenset([1]), {9: Mark("\u2717", value)}),),
        (1,),
        asked=9,
        ended=2,
        bars=(Bar("match 1", {1: name}),),
        left_out=1200,
    )
    text = svg(timeline)
    root = ET.fromstring(text)
    assert "<script" not in text and value in [element.text for element in root.iter(f"{SVG}title")]
    assert drawn(root, "why-m")[-1] == "and 1,200 more matches"
    assert [element[0].text for element in root.iter(f"{SVG}line") if len(element)] == ["6 rows left out", "3 rows left out"]
    assert max(len(cell) for cell in drawn(root, "why-t")) < 20


def test_a_page_escapes_the_statement():
    example = Example("", "ORDER BY t PATTERN (A) DEFINE A AS e = '<script>'", "t e", "1 <i>", "", "t = 1")
    why = answered(example)
    page = check(why.to_html())
    assert "'<i>' = '<script>'" in text_of(page) and page.count("i") == 0


def test_the_picture_of_the_page_about_why():
    """``python -m tests.docs.why_pages --write`` writes the pictures of the documentation."""
    (timeline,) = answered(BY_NAME["E1"]).timelines
    assert (ROOT / "docs" / "why_null.svg").read_text(encoding="utf-8") == svg(timeline)


def test_times_of_one_day_leave_the_day_to_the_name():
    """So that columns are narrow. Times of two days are whole."""
    rows = frozen(question("ORDER BY t MEASURES 1 AS one PATTERN (A) DEFINE A AS v > 1"), ["t", "v"], [(1, 1), (2, 2)], "t")
    times = [datetime.datetime(2026, 11, 27, 10, minute) for minute in (0, 30)]
    for days, wanted in (
        (0, ("t, 2026-11-27", ("10:00:00", "10:30:00"))),
        (1, ("t", ("2026-11-27 10:00:00", "2026-11-28 10:30:00"))),
    ):
        table = rows.table.set_column(0, rows.table.column_names[0], pa.array([times[0], times[1] + datetime.timedelta(days=days)]))
        why = explain(FrozenRows(rows.question, table), Asked((0,)))
        assert why.timelines[0].values[0] == wanted


def test_names_of_a_timeline_are_columns():
    """They are those of DEFINE without variables, and an argument of CLASSIFIER is none."""
    asked = question(
        "ORDER BY t MEASURES 1 AS one PATTERN (A B) SUBSET U = (A, B) DEFINE A AS CLASSIFIER(U) = 'A' AND LAST(CLASSIFIER(A)) = 'A', B AS B.v > A.w"
    )
    assert [name for name, _ in asked.named] == ["v", "w"]


def test_an_indented_comparison_stays_in_a_table():
    page = check(answered_kind(next(example for example in KINDS if example.name == "K12")).to_html())
    assert page.count("table") == 2 and page.count("pre") == 0


def test_columns_of_show_are_in_the_timeline():
    rows = frozen(question("ORDER BY t MEASURES 1 AS one PATTERN (A B) DEFINE A AS v > 1"), ["t", "v"], [(1, 5), (2, 6)], "t")
    table = rows.table.append_column(shown_column(0), pa.array(["x", None]))
    for level, wanted in (("", [("upper(e)", ("x", None))]), ("all", [])):
        values = explain(FrozenRows(rows.question, table, shown=("upper(e)",)), Asked((0,)), redact=level).timelines[0].values
        assert [column for column in values if column[0] == "upper(e)"] == wanted
    redacted = explain(FrozenRows(rows.question, table, shown=("upper(e)",)), Asked((0,)), redact="values").timelines[0].values
    assert redacted[-1][0] == "upper(e)" and redacted[-1][1][0].startswith("v") and redacted[-1][1][1] is None


def test_rows_of_a_part_of_a_partition():
    """Rows keep their numbers in the partition, and the timeline says which are left out."""
    asked = question("ORDER BY t MEASURES 1 AS one WINDOW 5 PATTERN (A B) DEFINE A AS v > 1")
    rows = frozen(asked, ["t", "v"], [(i, 5) for i in range(4)], "t")
    (timeline,) = explain(FrozenRows(asked, rows.table, first=100, size=300), Asked((101,))).timelines
    assert (timeline.rows, timeline.last, timeline.run) == ((101, 102, 103, 104), 300, (101, 102))
    assert "196 rows left out" in svg(timeline) and "100 rows left out" in svg(timeline)
