"""MATCH_ID() over a table: matches of rows that come and go, against what tells them apart by definition.

A match is told apart by the values of the rows that it took, less what CHANGES IN and ARRIVAL BY say of them, and by their
variables.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sparkcep.engine.output.repeated_match_id import changed
from sparkcep.errors import MatchRuntimeError
from tests.oracle import automaton as oracle
from tests.oracle import changelog, measures, selection
from tests.property.changelog.test_pattern_changes import letters, matches_of, random_query, refused, with_changes
from tests.property.in_process import run
from tests.selection import first

QUERIES, PARTITIONS = 13, 6  # a seed


def doubled(rng, changes):
    """The changes with some rows once more, so that matches of equal rows are there."""
    found = []
    for change in changes:
        found.append(change)
        if (change["op"] or "insert").lower() == "insert" and rng.random() < 0.4:
            found.append(dict(change))
    return [{**change, "at": at, "op": None if (change["op"] or "").lower() == "punctuate" else change["op"]} for at, change in enumerate(found)]


def definition(query, rows):
    """What is told of the matches, by what tells these apart."""
    at = {row["at"]: tuple(row[name] for name in changelog.EQUAL + ("s",)) for row in rows}
    found: dict[tuple, list] = {}
    for _, _, pairs, told in matches_of(query, False)(None, rows, None, lambda row: row["at"]):
        found.setdefault(tuple((at[row], variable) for row, variable in pairs), []).append(told)
    return found


def told_by_id(names, rows):
    """The output rows of a partition by the id of their match."""
    found: dict[str, list] = {}
    for row in rows:
        found.setdefault(row["m_id"], []).append(measured(names, row))
    return found


def measured(names, row):
    return tuple(sorted(((k, v) for k, v in row.items() if k in names), key=str))


def alike(told):
    """How often which output rows stand under one id, whatever that is."""
    return Counter(str(sorted(map(sorted, some), key=str)) for some in told)


def test_a_match_that_comes_gets_the_least_number_that_is_free():
    """Also where the one that gave it back told something else; matches of another id or partition count by themselves."""
    held = {}
    steps = [
        ((0, "x"), "a", "insert", 1), ((0, "x"), "b", "insert", 2), ((0, "x"), "a", "insert", 3), ((1, "x"), "a", "insert", 1), ((0, "y"), "a", "insert", 1),
        ((0, "x"), "b", "retract", 2), ((0, "x"), "c", "insert", 2), ((0, "x"), "a", "retract", 3), ((0, "x"), "a", "retract", 1), ((0, "x"), "d", "insert", 1), ((0, "x"), "d", "insert", 3),
    ]  # fmt: skip
    for key, told, change, number in steps:
        assert changed(held, key, told, change) == number, (key, told, change, held)
    assert held == {(0, "x"): {"c": [2], "d": [1, 3]}, (1, "x"): {"a": [1]}, (0, "y"): {"a": [1]}}
    for key, told in (((0, "x"), "c"), ((0, "x"), "d"), ((0, "x"), "d"), ((1, "x"), "a"), ((0, "y"), "a")):
        changed(held, key, told, "retract")
    assert held == {}


@pytest.mark.parametrize("mode", [measures.ONE_ROW, measures.SHOW_EMPTY])
@pytest.mark.parametrize("seed", first(range(6), wider=1))
def test_ids_are_those_of_the_definition(seed, mode):
    rng = random.Random(9500 + seed)
    compared = numbered = again = 0
    for i in range(QUERIES):
        query = random_query(rng, mode)
        net = with_changes(query, "ARRIVAL BY at", "MATCH_ID() AS m_id, ")
        log = with_changes(query, "ARRIVAL BY at REPORT CHANGES", "CHANGE() AS m_change, CHANGE_NUMBER() AS m_number, MATCH_ID() AS m_id, ")
        if refused(log):
            continue
        partitions, wanted = {}, {}
        for p in range(PARTITIONS):
            rows = letters(rng, doubled(rng, changelog.random_changes(rng, rng.randrange(1, 7), 0.3)))
            try:
                wanted[p] = definition(query, changelog.left(rows))
                partitions[p] = rows
            except (selection.Budget, changelog.Refused):
                continue
        left, logged = run(net, partitions, (None, 1, 3)[i % 3]), run(log, partitions, (None, 1, 3)[i % 3])
        for p, expected in wanted.items():
            about = f"{net}\nchanges {partitions[p]}\nwanted {expected}\ngot {left.get(p)}"
            got = told_by_id(query.measures, left.get(p, []))
            bases: dict[str, list] = {}
            for id, some in got.items():
                base, _, number = id.partition("-")
                bases.setdefault(base, []).append(some)
                numbered += bool(number)
            assert {id for id in got} == {base if n == 0 else f"{base}-{n + 1}" for base, some in bases.items() for n in range(len(some))}, about
            assert alike(bases.values()) == alike(expected.values()), about
            compared += len(got)
            again += replayed(query.measures, logged.get(p, []), got, about)
    assert compared > 25 and numbered > 2


@pytest.mark.parametrize("seed", first(range(8), wider=1))
def test_the_changelog_of_an_automaton_has_the_ids_of_what_is_left(seed):
    rng = random.Random(9600 + seed)
    compared = again = 0
    for i in range(QUERIES):
        automaton = oracle.random_automaton(rng)
        names = {"m_first", "m_last", "m_count", "m_to"}
        told = "FIRST(id) AS m_first, LAST(id) AS m_last, count(*) AS m_count, MATCH_TO() AS m_to"
        net = oracle.clause(automaton, f"MATCH_ID() AS m_id, {told}", changes="CHANGES IN op ARRIVAL BY at")
        log = oracle.clause(
            automaton, f"CHANGE() AS m_change, CHANGE_NUMBER() AS m_number, MATCH_ID() AS m_id, {told}", changes="CHANGES IN op ARRIVAL BY at REPORT CHANGES"
        )
        partitions = {}
        for p in range(PARTITIONS):
            rows = letters(rng, doubled(rng, changelog.random_changes(rng, rng.randrange(1, 8), 0.3)))
            automaton.spent[0] = 0
            try:
                oracle.matches(automaton, changelog.left(rows), name=lambda row: (row["id"], row["at"]))
                partitions[p] = rows
            except (oracle.OverflowInt, oracle.TooMany, changelog.Refused):
                continue
        try:
            left, logged = run(net, partitions, (None, 1, 3)[i % 3]), run(log, partitions, (None, 1, 3)[i % 3])
        except MatchRuntimeError as error:
            assert error.error_class == "SPARKCEP.ARITHMETIC_OVERFLOW", error  # by rows that are taken back
            continue
        for p in partitions:
            got = told_by_id(names, left.get(p, []))
            assert all(len(some) == 1 for some in got.values())
            compared += len(got)
            again += replayed(names, logged.get(p, []), got, f"{log}\nchanges {partitions[p]}\nleft {left.get(p)}")
    assert compared > 25 and again > 0


def replayed(names, changes, left, about):
    """How many ids of a changelog were given again; asserts that what holds at its end has the ids of the matches that are left."""
    live: dict[str, list] = {}
    gone, again = set(), 0
    by_change: dict[int, list] = {}
    for row in changes:
        by_change.setdefault(row["m_number"], []).append(row)
    for _, rows in sorted(by_change.items()):
        (id, change), = {(row["m_id"], row["m_change"]) for row in rows}
        told = sorted((measured(names, row) for row in rows), key=str)
        if change == "insert":
            assert id not in live, about
            live[id] = told
            again += id in gone
        else:
            assert live.pop(id) == told, about
            gone.add(id)
    bases = [Counter((id.partition("-")[0], str(sorted(map(str, some)))) for id, some in found.items()) for found in (live, left)]
    assert bases[0] == bases[1], f"{about}\nchanges {changes}"
    return again
