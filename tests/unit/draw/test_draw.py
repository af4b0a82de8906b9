"""Pictures and pages of automata: what they show of every engine, and that they are whole documents."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

import sparkcep
from sparkcep.clause.tokens import split_statements
from sparkcep.cli.cli import main
from sparkcep.draw.arcs import LABEL, picture
from sparkcep.draw.automata import MAX_STATES, graph_of
from sparkcep.draw.graph import COMPLETE, IGNORE, TAKE, Edge, Graph, State
from sparkcep.sql.rewrite.rewrite import rewrite_all
from tests.docs.test_sql_examples import STATEMENT_FILES
from tests.support.pages import check, text_of

ROOT = Path(__file__).resolve().parents[3]
SVG = "{http://www.w3.org/2000/svg}"


def statement(rest: str) -> str:
    return f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY d MEASURES LAST(d) AS x {rest})"


def graph(rest: str) -> Graph:
    item = rewrite_all(statement(rest))[1][0]
    return graph_of(item.plan, item.clause)


def edges(found: Graph) -> list[str]:
    return [f"{e.source}-{e.target} {e.kind} {e.text}" for e in found.edges]


# pattern -> the edges of its picture, in order
PICTURES = {
    "PATTERN (A B+) DEFINE B AS x < PREV(x)": [
        "0-1 take A",
        "1-2 take B+ if x < PREV(x)",
        "2-2 take 1. B+ if x < PREV(x)",
        "2-2 complete 2. complete",
    ],
    # reluctant: to be complete is preferred
    "PATTERN (A B+?)": ["0-1 take A", "1-2 take B+?", "2-2 complete 1. complete", "2-2 take 2. B+?"],
    "PATTERN (A? B*? C)": [
        "0-1 take 1. A?", "0-3 take 2. C", "0-2 take 3. B*?",
        "1-3 take 1. C", "1-2 take 2. B*?",
        "2-3 take 1. C", "2-2 take 2. B*?",
    ],
    # the start comes first, wherever it stands
    "AUTOMATON (REGISTER n INT = 0 STATE z FINAL, a START ARC FROM b TO z ON EMPTY WHEN n > 2 ARC up FROM a TO b WHEN x > 1 SET n = n + 1 ARC FROM b TO b EMIT (n AS m))": [
        "0-1 take up if x > 1 [n := n + 1]", "1-2 take 1. no row if n > 2 [on empty]", "1-1 take 2. row [emit n as m]",
    ],
    "PATTERN (A{2,3} B)": ["0-1 take A{2,3}", "1-1 take 1. A{2,3}", "1-2 take 2. B [after 2 rows]"],
    "PATTERN ((A B){2,3})": [
        "0-1 take A", "1-2 take B",
        "2-1 take 1. A [another round of {2,3}]",
        "2-2 complete 2. complete [rounds of {2,3} done]",
    ],
    "PATTERN (PERMUTE(A, B) C)": [
        "0-1 take 1. A", "0-2 take 2. B",
        "1-2 take 1. B [a part not yet done]", "1-3 take 2. C [all parts done]",
        "2-1 take 1. A [a part not yet done]", "2-3 take 2. C [all parts done]",
    ],
    "PATTERN (^ A {- B -} $ | C)": [
        "0-1 take 1. A [first row of the partition]", "0-3 take 2. C",
        "1-2 take B [left out of ALL ROWS]",
        "2-2 complete complete [last row of the partition]",
    ],
    "EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~N B) WINDOW 9 DEFINE B AS x = A.x -- why\n AND\n y": [
        "0-1 take A [opens window 0]",
        "1-2 take B if x = A.x AND y [inside window 0; no N since the last row]",
        "1-1 ignore ignore unless B",
    ],
    "EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B?)": [
        "0-1 take A", "1-2 take 1. B", "1-1 complete 2. complete", "1-1 ignore ignore any row",
    ],
    "EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A & B)": [
        "0-1 take 1. A", "0-2 take 2. B",
        "1-3 take B [side 2; may be the same row]", "2-4 take A [side 1]",
    ],
    "PATTERN (A B) APPROX 1 ALL MATCHES": [
        "0-1 take 1. A", "0-2 take 2. B [skips A]",
        "1-3 take 1. B", "1-1 complete 2. complete [skips B; 1 error]", "1-1 ignore ignore any row",
        "2-2 complete complete [1 error]", "3-3 complete complete [0 errors]",
    ],
}


@pytest.mark.parametrize("rest", PICTURES)
def test_what_a_picture_shows(rest):
    assert edges(graph(rest)) == PICTURES[rest]


def test_substituted_and_extra_rows_are_told_apart():
    found = edges(graph("EVENT SELECTION STRICT CONTIGUITY PATTERN (A B) APPROX 0.5 WEIGHTS (A 0.5, EXTRA 0.5) DEFINE A AS k = 1"))
    assert any("a substitute row" in e for e in found) and any("any row [an extra row]" in e for e in found)


def test_the_exact_picture_says_what_event_selection_says():
    """The walk over the program against the automaton that another builder makes of the same pattern."""
    for pattern in ("A B+ C", "(A | B C)+ D?", "A (B C?)* D", "((A B)* C)+ D", "A? B? C?", "(A+ | B)+? C"):
        exact = graph(f"PATTERN ({pattern})")
        other = graph(f"EVENT SELECTION STRICT CONTIGUITY PATTERN ({pattern}) WINDOW 9")
        assert words(exact) == words(other), pattern


def words(found: Graph, longest: int = 5) -> set[str]:
    """The sequences of variables that lead to a state where a match may be complete."""
    out, runs = set(), {(0, "")}
    for _ in range(longest + 1):
        out |= {word for state, word in runs if found.states[state].complete}
        runs = {(e.target, word + e.name[0]) for state, word in runs for e in found.edges if e.source == state and e.kind == TAKE}
    return out


def test_a_large_automaton_is_cut_and_says_so():
    found = graph("PATTERN (" + " ".join(f"A{i % 60}" for i in range(MAX_STATES + 40)) + ")")
    assert (len(found.states), found.left_out) == (MAX_STATES, 41)
    assert f"the first {MAX_STATES} of {MAX_STATES + 41} states" in "".join(picture([found]).itertext())


def boxes(root: ET.Element) -> list[tuple[float, float, float, float]]:
    """(left, top, right, bottom) of each line of a label."""
    out = []
    for text in root.iter("text"):
        if "cep-l" in text.get("class", ""):
            width, x, y = len(text.text) * 6.7, float(text.get("x")), float(text.get("y"))
            left = x - width / 2 if text.get("text-anchor") == "middle" else x
            out.append((left, y - 10, left + width, y + 2))
    return out


@pytest.mark.parametrize(
    "rest",
    [
        *PICTURES,
        "PATTERN (^ A (B C?){2,5}? (D | E* F){0,3} PERMUTE(G, H, I) {- X*? -} $) DEFINE A AS a > 1",
        "PATTERN (A B C D) APPROX 2 DEFINE A AS a_long_name_of_a_column_indeed > another_one_that_is_longer",
        "PATTERN (" + " ".join(f"V{i}{'+' if i % 3 == 0 else ''}" for i in range(40)) + ")",
    ],
)
def test_no_label_lies_on_another_or_outside(rest):
    root = picture([graph(rest)])
    found = sorted(boxes(root))
    assert all(0 <= left and right <= float(root.get("width")) and 0 <= top and bottom <= float(root.get("height")) for left, top, right, bottom in found)
    for i, a in enumerate(found):
        for b in found[i + 1 :]:
            assert not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]), (a, b)
    states = [float(r.get("x")) for r in root.iter("rect") if r.get("class") == "cep-s"]
    assert all(a < b for a, b in pairwise(states))


def test_every_statement_of_the_examples_is_drawn():
    drawn = 0
    for path in STATEMENT_FILES:
        for sql in split_statements(path.read_text(encoding="utf-8")):
            for item in rewrite_all(sql)[1]:
                found = graph_of(item.plan, item.clause)
                tells = any(s.complete for s in found.states) or any(note.startswith("emit ") for e in found.edges for note in e.notes)
                assert (tells or "ARCS FROM" in sql) and found.left_out == 0, path.name
                reached = {0} | {e.target for e in found.edges if e.kind == TAKE}
                assert reached == set(range(len(found.states))), path.name
                assert picture([found]).find("g") is not None
                drawn += 1
    assert drawn > 40


def test_svg_is_a_document_with_whole_labels_as_titles():
    condition = "note <> '&amp; <b>' AND " + " AND ".join(f"column_number_{i} > {i}" for i in range(9))
    text = sparkcep.explain(statement(f"PATTERN (A B+) DEFINE B AS {condition}"), "svg")
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert f"B+ if {condition}" in titles and "state 2, a match may be complete" in titles
    shown = [t.text for t in root.iter(f"{SVG}text") if "cep-l" in t.get("class")]
    assert all(len(t) <= LABEL for t in shown) and any(t.endswith("…") for t in shown)
    assert len([r for r in root.iter(f"{SVG}rect") if r.get("class") == "cep-i"]) == 1  # one state is drawn double


def test_only_a_condition_of_more_lines_than_there_are_is_shortened():
    def shortened(count):
        text = sparkcep.explain(statement("PATTERN (A B) DEFINE B AS " + " AND ".join(f"x{i} > {i}" for i in range(count))), "svg")
        return any("…" in t.text for t in ET.fromstring(text).iter(f"{SVG}text"))

    assert [shortened(count) for count in (1, 4, 7)] == [False, False, True]


def test_edges_back_run_below_and_onward_above():
    kinds = (Edge(0, 1, TAKE, "A"), Edge(0, 2, TAKE, "B"), Edge(2, 0, TAKE, "C"), Edge(1, 1, IGNORE, "any"), Edge(2, 2, COMPLETE, "complete"))
    root = picture([Graph("t", (State("0"), State("1"), State("2", complete=True)), kinds)])
    axis = next(float(t.get("y")) for t in root.iter("text") if t.text == "0")
    y = {t.text: float(t.get("y")) for t in root.iter("text")}
    assert y["A"] < axis and y["B"] < y["A"] and min(y["C"], y["any"], y["complete"]) > axis


def test_the_page_is_whole_and_loads_nothing():
    sql = statement("PATTERN (A B+) DEFINE B AS note <> '</pre><script>alert(1)</script>'")
    page = check(sparkcep.explain(sql, "html"))
    assert page.count("svg") == 1 and page.count("script") == 0
    assert "RUN   B{1,}" in text_of(page) and "'</pre><script>" in text_of(page) and "DISTRIBUTE BY" not in text_of(page, "h2")


def test_unknown_formats_and_statements_without_a_clause():
    with pytest.raises(ValueError, match="unknown format 'dot'; the formats are text, svg, html"):
        sparkcep.explain("SELECT 1", "dot")
    with pytest.raises(ValueError, match="an automaton cannot be drawn"):
        sparkcep.explain("SELECT 1", "svg")
    assert "no MATCH_RECOGNIZE clause" in text_of(check(sparkcep.explain("SELECT 1", "html")))


def test_the_command_line_writes_pictures_and_pages(tmp_path, capsys):
    two = f"{statement('PATTERN (A)')}; SELECT 1; {statement('PATTERN (B C)')}"
    assert main(["explain", "-e", two, "--format", "svg"]) == 0
    root = ET.fromstring(capsys.readouterr().out)
    assert [t.text for t in root.iter(f"{SVG}text") if "adjacent rows" in t.text] == ["1. exact matching, adjacent rows", "2. exact matching, adjacent rows"]
    assert main(["explain", "-e", two, "--format", "html", "--output", str(tmp_path / "x.html")]) == 0
    assert check((tmp_path / "x.html").read_text()).count("svg") == 2
    assert main(["explain", "-e", "SELECT 1", "--format", "svg"]) == 2
    assert main(["explain", "-e", statement("PATTERN (A) DEFINE B AS x"), "--format", "svg"]) == 2
    assert main(["explain", "-e", two, "--format", "svg", "--output", str(tmp_path / "no" / "x.svg")]) == 2
    assert "UNKNOWN_VARIABLE" in (err := capsys.readouterr().err) and "No such file" in err
