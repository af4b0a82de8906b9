"""Nets of small patterns, written down by hand: each node with its edges in preference order."""

from __future__ import annotations

from functools import partial

import pytest

from sparkcep.clause.parser import parse_clause
from sparkcep.compiler.net.conjunction import conjunction_automaton
from sparkcep.compiler.net.gap_net import selection_automaton
from sparkcep.compiler.net.net import (
    ACCEPT,
    E_AT_END,
    E_AT_START,
    E_CHECK,
    E_COST,
    E_LABEL,
    E_NOT,
    E_OPEN,
    E_TARGET,
    E_VAR,
    Edge,
    Net,
)
from sparkcep.compiler.net.skip_net import approximate_automaton
from sparkcep.compiler.net.skipping_sides import approximate_conjunction
from sparkcep.compiler.net.variable_copies import with_copies
from sparkcep.errors import ClauseError
from sparkcep.plan.build import make_plan
from sparkcep.plan.plan import Plan

ANY = "EVENT SELECTION SKIP TILL ANY MATCH"
NEXT = "EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES"


def plan_of(rest: str) -> Plan:
    return make_plan(parse_clause(f"ORDER BY i MEASURES LAST(i) AS l {rest}"))


def nodes(net: Net) -> list[str]:
    """One line a node: variable, target and notes of each edge; ``.`` completes the match."""
    lines = []
    for node in range(net.nodes):
        found = []
        for e in net.edges_of(node):
            edge = net.edge(e)
            text = "." if edge.variable == ACCEPT else f"{net.variables[edge.variable]}{edge.target}"
            notes = "; ".join(net.notes(e, windows=~1))
            found.append(text + (f" [{notes}]" if notes else ""))
        lines.append(" ".join(found))
    return lines


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A B", ["A1", "B2", "."]),
        ("A B?", ["A1", "B2 .", "."]),
        ("A B??", ["A1", ". B2", "."]),
        ("A | B", ["A1 B1", "."]),
        ("A+", ["A1", "A1 ."]),
        ("A+?", ["A1", ". A1"]),
        ("A* B", ["A1 B2", "A1 B2", "."]),
        ("A{2}", ["A1", "A2", "."]),
        ("A{1,3}", ["A1", "A2 .", "A3 .", "."]),
        ("(A B)*", ["A1 .", "B2", "A1 ."]),
        ("(A?){2} B", ["A1 B2", "A3 B2", ".", "B2"]),  # how many rounds are done belongs to the node
        ("PERMUTE(A, B)", ["A1 B2", "B3", "A3", "."]),
        ("A | A B", ["A1", ". B2", "."]),  # one node is several places in the pattern: each match is found once
        ("A {- B -}", ["A1", "B2", "."]),
        ("^ A B", ["A1 [first row of the partition]", "B2", "."]),
        ("(^ A | B) C", ["A1 [first row of the partition] B1", "C2", "."]),
        ("A $", ["A1", ". [last row of the partition]"]),
        ("A ($ | B)", ["A1", ". [last row of the partition] B2", "."]),
        ("A $ B", ["A1", ""]),  # no row comes behind the last one
        ("A (B C) WITHIN 3", ["A1", "B2 [opens window 1]", "C3 [inside window 1]", "."]),
        ("((A) WITHIN 3)+", ["A1 [opens window 1]", "A1 [opens window 1] ."]),
        ("A ~N B", ["A1", "B2 [no N since the last row]", "."]),
        ("A ~N ~M B", ["A1", "B2 [no N, M since the last row]", "."]),
    ],
)
def test_plain_moves(pattern, expected):
    assert nodes(selection_automaton(plan_of(f"{ANY} PATTERN ({pattern}) WINDOW 9"))[1]) == expected


def test_ways_to_one_match_stay_apart_where_each_passes_over_rows_by_its_own_state():
    assert nodes(selection_automaton(plan_of(f"{NEXT} PATTERN (A | A B)"))[1]) == ["A1 A2", ".", "B1"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A & B", ["A1 B2", "B3 [may be the same row]", "A4", ".", "."]),
        ("(A & B) C", ["A1 B2", "B3 [may be the same row]", "A4", "C5", "C5", "."]),
        ("A (B & C?)", ["A1", "B2 C3", "C4 [may be the same row] .", "B5", ".", "."]),
        ("A & ^ B", ["A1 B2 [first row of the partition]", "B3 [may be the same row; first row of the partition]", "A4", ".", "."]),
        ("A ~N B & C", [
            "A1 C2", "B3 [no N since side 1's last row] C4 [may be the same row]", "A5", "C6 [may be the same row]", "B7 [no N since side 1's last row]",
            "B8 [no N since side 1's last row]", ".", ".", ".",
        ]),
        ("A $ & B", ["A1 B2", "B3 [may be the same row]", "A4", ". [last row of the partition]", ". [last row of the partition]"]),
        ("(A $ & B) C", ["A1 B2", "B3 [may be the same row]", "A4", "", ""]),
    ],
)
def test_sided_moves(pattern, expected):
    assert nodes(conjunction_automaton(plan_of(f"{ANY} PATTERN ({pattern}) WINDOW 9"))[1]) == expected


def test_what_sides_have_of_a_row():
    net = conjunction_automaton(plan_of(f"{NEXT} PATTERN (A B & C)"))[1]
    found = [net.edge(e) for e in net.edges_of(1)]  # behind A
    assert [(edge.side, edge.have, edge.begin) for edge in found] == [(1, 0b011, 0), (2, 0b101, 0)]
    assert [(edge.side, edge.have, edge.begin) for edge in map(net.edge, net.edges_of(0))] == [(0, 0b011, 0b110), (0, 0b101, 0b110)]
    assert net.sides == 3 and net.far.tolist() == [0b100, 0b100, 0b011]


def test_a_side_passes_over_what_its_own_variables_do_not_take():
    net = conjunction_automaton(plan_of(f"{NEXT} PATTERN (A (B | C) & D)"))[1]
    behind_a = net.edges_of(1)
    lists = [net.blockers[edge.blockers : edge.blockers_end].tolist() for edge in map(net.edge, behind_a)]
    assert [[net.variables[net.edge(b).variable] for b in found] for found in lists] == [["B", "C"], ["B", "C"], ["D"]]


def test_a_variable_behind_the_last_row_is_no_reason_not_to_pass_over_a_row():
    net = conjunction_automaton(plan_of(f"{NEXT} PATTERN (A (B | $ C) & D)"))[1]
    assert {net.variables[net.edge(b).variable] for b in net.blockers.tolist()} == {"A", "B", "D"}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("PATTERN (A B) APPROX 1 ALL MATCHES", [
            "node 0 (start)", "  begin A -> 1 [opens window 0]", "  begin B -> 2 [opens window 0] [skipping A]",
            "node 1 at cost 0", "  take B -> 3 [inside window 0]", "  complete [skipping B] with 1 error",
            "node 2 at cost 1", "  complete with 1 error",
            "node 3 at cost 0", "  complete with 0 errors",
        ]),
        # what it costs is known by the node; where no match can be completed any more there is none
        ("PATTERN (A B C) APPROX 1 WEIGHTS (A 2, B 2) ALL MATCHES", [
            "node 0 (start)", "  begin A -> 1 [opens window 0]",
            "node 1 at cost 0", "  take B -> 2 [inside window 0]",
            "node 2 at cost 0", "  take C -> 3 [inside window 0]", "  complete [skipping C] with 1 error",
            "node 3 at cost 0", "  complete with 0 errors",
        ]),
        ("EVENT SELECTION STRICT CONTIGUITY PATTERN (A B) APPROX 0.5 WEIGHTS (A 0.5, EXTRA 0.5) ALL MATCHES DEFINE A AS s = 'a'", [
            "node 0 (start)", "  begin A -> 1 if (s = 'a') [opens window 0]", "  begin A -> 2 [opens window 0] (a substitute row)",
            "  begin B -> 3 [opens window 0] [skipping A]",
            "node 1 at cost 0.0", "  take B -> 4 [inside window 0]", "  take any row -> 5 (an extra row)",
            "node 2 at cost 0.5", "  take B -> 3 [inside window 0]",
            "node 3 at cost 0.5", "  complete with 0.5 errors",
            "node 4 at cost 0.0", "  complete with 0.0 errors",
            "node 5 at cost 0.5", "  take B -> 3 [inside window 0]",  # not node 2: no match ends with an extra row
        ]),
    ],
)
def test_skipping_moves(rest, expected):
    plan = plan_of(rest)
    copied, copies = with_copies(plan)
    net = approximate_automaton(copied, copies, merge=True)[1]
    conditions = ("(s = 'a')", "", "", "")
    assert net.dump("", conditions if "DEFINE" in rest else ("",) * 9, plan.approximate).splitlines() == expected


def test_columns_of_the_table_stand_as_edges_name_them():
    columns = {"variable": E_VAR, "label": E_LABEL, "target": E_TARGET, "opens": E_OPEN, "inside": E_CHECK, "negated": E_NOT, "start": E_AT_START, "end": E_AT_END}
    assert {name: Edge._fields.index(name) for name in columns} == columns
    assert Edge._fields.index("cost") == E_COST


def test_ambiguous_nets():
    assert not selection_automaton(plan_of(f"{ANY} PATTERN (A | A B)"))[1].ambiguous
    assert selection_automaton(plan_of(f"{NEXT} PATTERN (A | A B)"))[1].ambiguous


MANY = " ".join(f"(A{i} | B{i})?" for i in range(15))


@pytest.mark.parametrize("build, rest, message", [
    pytest.param(selection_automaton, f"{ANY} PATTERN ((({MANY}){{2,900}} C){{2,900}})", "too many choices;", marks=pytest.mark.further),
    pytest.param(selection_automaton, f"{ANY} PATTERN ((A? B?){{3000}} C)", "too many choices;", marks=pytest.mark.further),
    (selection_automaton, f"{NEXT} PATTERN ((A? B?){{3000}} C)", "more than 4096 states"),
    (selection_automaton, f"{ANY} PATTERN ((A?){{1000000}} B)", "too many choices at one row"),
    pytest.param(conjunction_automaton, f"{ANY} PATTERN ((A? B?){{900}} & C)", "too many choices;", marks=pytest.mark.slow),
    (approximate_conjunction, "WINDOW 9 APPROX 2 PATTERN ((A? B?){900} & C{3})", "more than 4096 states"),
    pytest.param(
        partial(approximate_automaton, merge=True), "WINDOW 9 APPROX 2 PATTERN ((A? B?){900} C{3})", "too many choices;", marks=pytest.mark.slow
    ),
])  # fmt: skip
def test_a_pattern_with_too_many_choices_or_states_is_an_error(build, rest, message):
    with pytest.raises(ClauseError, match=f"PATTERN_TOO_COMPLEX.*({message})"):
        build(*(with_copies(plan_of(rest)) if "APPROX" in rest else [plan_of(rest)]))
