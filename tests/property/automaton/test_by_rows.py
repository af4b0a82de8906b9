"""AUTOMATON BY ROWS, written by hand: arcs without a name are before, between and after those of a match, and each match is
reported once.

The twin goes through all computations over all neighbouring rows one by one, and puts what distinguishes matches into a set.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pytest

from sparkcep.engine.automaton import register_arrays
from sparkcep.engine.changelog.append_only import AppendOnly
from tests.oracle import automaton as oracle
from tests.oracle import changelog
from tests.property.in_process import run
from tests.selection import first, one_in

AUTOMATA, PARTITIONS = 5, 8  # a seed
SPECULATE = {None: "", 0: " SPECULATE NONE", 2: " SPECULATE 2"}
SHAPES = ("begin", "middle", "end", "any", "twice")


class Arc(NamedTuple):
    name: str | None
    source: int
    target: int
    least: int | None = None  # WHEN v >= least
    empty: bool = False
    adds: bool = False  # SET n = n + w
    emits: str | None = None


class Graph(NamedTuple):
    arcs: tuple[Arc, ...]
    final: int
    window: int | None = None
    lifetime: bool = False  # to id + 1 + w


EMITS = {"n": lambda n, row: n, "v": lambda n, row: row["v"], "1": lambda n, row: 1}


def random_graph(rng, shape):
    """Named arcs in a line, and arcs without a name before, between or after them. The name of an arc ON EMPTY says nothing."""
    if shape == "twice":  # one computation begins before the match's rows and soon ends, the other begins with them and goes on
        arcs = [Arc(None, 0, 1), Arc("A", 1, 2, 1), Arc(None, 2, 6), Arc("A", 0, 3, 1), Arc(None, 3, 3), Arc(None, 3, 6, rng.choice((1, 2)))]
        arcs += [Arc("B", 3, 3, 2)] if rng.random() < 0.5 else []
        rng.shuffle(arcs)
        return Graph(tuple(arcs), 6, rng.choice((None, None, 4)))
    a, b, last = 1, 2, 3
    end = last if shape in ("begin", "middle") else rng.choice((last, 4))
    arcs = [Arc("A", 0, a, rng.choice((1, 2)), adds=rng.random() < 0.3), Arc(rng.choice("AB"), a, b, rng.choice((None, 1)))]
    emits = rng.choice((None, None, "n", "v", "1"))
    arcs.append(Arc("C", b, last, rng.choice((None, 1)), emits=emits if end == last else None) if rng.random() < 0.5 else Arc(rng.choice((None, "E")), b, last, empty=True))
    if shape in ("begin", "any"):
        arcs += [Arc(None, 0, 0, rng.choice((None, 1)), adds=rng.random() < 0.2)] if rng.random() < 0.7 else [Arc(None, 0, 5), Arc("A", 5, a, 1)]
    if shape in ("middle", "any"):
        arcs += [Arc(None, rng.choice((a, b)), rng.choice((a, b)), rng.choice((None, 0, 1))) for _ in range(rng.choice((1, 2)))]
    if end == 4 or shape == "end":
        arcs += [Arc(None, last, last)] if rng.random() < 0.7 else []
        arcs += [Arc(None, last, end, rng.choice((None, 0)), emits=emits)] + ([Arc(rng.choice((None, "E")), last, end, empty=True)] if end == 4 and rng.random() < 0.2 else [])
    if shape == "any":
        arcs.append(Arc(rng.choice((None, "D")), rng.choice((0, a, b)), rng.choice((a, b, end))))
    rng.shuffle(arcs)
    return Graph(tuple(arcs), end, rng.choice((None, None, 2, 4, 9)), rng.random() < 0.15)


def random_rows(rng, count):
    ids = sorted(rng.sample(range(2 * count), count))
    return [{"id": id, "v": rng.choice((None, 0, 1, 2)), "w": rng.choice((0, 0, 1)), "s": None} for id in ids]


def text_of(graph, changes="", measures="MATCH_NUMBER() AS m_no"):
    arcs = []
    for arc in graph.arcs:
        said = f"ARC {arc.name + ' ' if arc.name else ''}FROM q{arc.source} TO q{arc.target}{' ON EMPTY' if arc.empty else ''}"
        said += f" WHEN v >= {arc.least}" if arc.least is not None else ""
        said += " SET n = n + w" if arc.adds else ""
        arcs.append(said + (f" EMIT ({arc.emits} AS e)" if arc.emits else ""))
    emitted = ", e AS m_e" if any(arc.emits for arc in graph.arcs) else ""
    bound = " LIFETIME TO id + 1 + w" if graph.lifetime else f" WINDOW {graph.window}" if graph.window else ""
    return (
        f"PARTITION BY p ORDER BY id MEASURES {measures}, CLASSIFIER() AS m_label, n AS m_n, MATCH_FROM() AS m_from, MATCH_TO() AS m_to{emitted} ALL ROWS PER MATCH "
        f"AUTOMATON BY ROWS (REGISTER n INT = 0 STATE q0 START, q{graph.final} FINAL {' '.join(arcs)}){bound} {changes}"
    )


def matches(graph, rows):
    """All matches over the rows: (the rows of named arcs with these names, register, EMIT value, lifetime)."""
    found = set()

    def go(state, at, begun, taken, n, emitted, end, completes):
        """Goes on before the row ``at``; ``end``: the least end of the rows that were read."""
        if completes and taken:
            found.add((taken, n, emitted, taken[-1][0], end))
        for arc in graph.arcs:
            if arc.source != state:
                continue
            if arc.empty:
                go(arc.target, at, begun, taken, n, None, end, begun and arc.target == graph.final)
                continue
            row = rows[at] if at < len(rows) else None
            if row is None or (end is not None and end <= row["id"]) or (arc.least is not None and (row["v"] is None or row["v"] < arc.least)):
                continue
            after = n + row["w"] if arc.adds else n
            value = EMITS[arc.emits](after, row) if arc.emits else None
            own = row["id"] + 1 + row["w"] if graph.lifetime else row["id"] + graph.window if graph.window else None
            least = own if end is None else end if own is None else min(end, own)
            named = (*taken, (row["id"], arc.name)) if arc.name else taken
            go(arc.target, at + 1, True, named, after, value, least, arc.emits is not None or arc.target == graph.final)

    for first_row in range(len(rows)):
        go(0, first_row, False, (), 0, None, None, False)
    return found


def reported(rows, number="m_no"):
    """The matches of the output of a partition, with the number of each."""
    by_number = {}
    for row in rows:
        by_number.setdefault(row[number], []).append(row)
    return [
        (number, (tuple((row["id"], row["m_label"]) for row in own), own[0]["m_n"], own[0].get("m_e"), own[0]["m_from"], own[0]["m_to"]))
        for number, own in by_number.items()
    ]


@pytest.mark.parametrize("shape", one_in(3, SHAPES))
@pytest.mark.parametrize("seed", first(range(24), wider=1))
def test_each_match_is_reported_once(seed, shape, monkeypatch):
    rng = random.Random(f"{shape} {seed}")
    if seed % 3 == 1:
        monkeypatch.setattr(register_arrays, "RECORDS", 1)
        monkeypatch.setattr(register_arrays, "MATCHES", 1)
    count = 0
    for i in range(AUTOMATA):
        graph = random_graph(rng, shape)
        partitions = {p: random_rows(rng, rng.randrange(1, 9)) for p in range(PARTITIONS)}
        text = text_of(graph)
        ways = ({}, {"chunk_rows": 1}, {"chunk_rows": 3}, {"cuts": random.Random(i)}, {"cuts": random.Random(-i)})
        for options in ways:
            got = run(text, partitions, **options)
            for p, rows in partitions.items():
                found = reported(got.get(p, []))
                assert sorted(number for number, _ in found) == list(range(1, len(found) + 1))
                assert Counter(match for _, match in found) == Counter(matches(graph, rows)), f"{text}\n{options} rows {rows}"
                count += len(found)
    assert count > 10


def reported_of(automaton, rows, number, at):
    """The matches of the output of a partition as :func:`matches_by_rows` has them, with the number of each; ``at``: the column
    that names a row."""
    emits = sorted({name for arc in automaton.arcs for name, _ in arc.emits})
    by_number = {}
    for row in rows:
        by_number.setdefault(row[number], []).append(row)
    return [
        (number, (tuple((row[at], row["m_label"]) for row in own), *(tuple(own[0][f"m_{name}"] for name in some) for some in (automaton.registers, emits)), own[0]["m_to"]))
        for number, own in by_number.items()
    ]


def clause_of(automaton, measures, changes=""):
    names = [*automaton.registers, *sorted({name for arc in automaton.arcs for name, _ in arc.emits})]
    told = ", ".join([measures, "CLASSIFIER() AS m_label, MATCH_TO() AS m_to", *(f"{name} AS m_{name}" for name in names)])
    return oracle.clause(automaton, told, "ALL ROWS PER MATCH", changes).replace("AUTOMATON (", "AUTOMATON BY ROWS (")


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_registers_loops_on_empty_and_lives_without_end(seed, monkeypatch):
    rng = random.Random(f"registers {seed}")
    if seed % 3 == 1:
        monkeypatch.setattr(register_arrays, "RECORDS", 1)
        monkeypatch.setattr(register_arrays, "MATCHES", 1)
    compared = count = 0
    while compared < AUTOMATA:
        automaton, expected = oracle.random_by_rows(rng), {}
        partitions = {p: random_rows(rng, rng.randrange(1, 7)) for p in range(PARTITIONS // 2)}
        for p, rows in partitions.items():
            automaton.spent[0] = 0
            try:
                expected[p] = Counter(match[2:] for match in oracle.matches_by_rows(automaton, rows))
            except (oracle.OverflowInt, oracle.TooMany):
                continue
        if not any(expected.values()):
            continue
        compared += 1
        text = clause_of(automaton, "MATCH_NUMBER() AS m_no")
        for options in ({}, {"chunk_rows": 1}, {"cuts": random.Random(compared)}):
            got = run(text, {p: partitions[p] for p in expected}, **options)
            for p, matches_there in expected.items():
                found = reported_of(automaton, got.get(p, []), "m_no", "id")
                assert sorted(number for number, _ in found) == list(range(1, len(found) + 1))
                assert Counter(match for _, match in found) == matches_there, f"{text}\n{options} rows {partitions[p]}"
                count += len(found)
    assert count > AUTOMATA


@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_changes_with_registers_loops_and_lives_without_end(seed):
    rng, compared, count = random.Random(f"registers that change {seed}"), 0, 0

    def find(automaton, rows, until, name):
        return oracle.matches_by_rows(automaton, rows, name=name)

    while compared < AUTOMATA:
        automaton, expected = replace(oracle.random_by_rows(rng), consecutive=rng.random() < 0.2), {}
        partitions = {p: changelog.random_changes(rng, rng.randrange(1, 10), rng.choice((0.0, 0.5)), equal=0.2) for p in range(PARTITIONS // 2)}
        ahead = rng.choice((None, None, 0, 2))
        for p, changes in partitions.items():
            automaton.spent[0] = 0
            try:
                told = changelog.changelog(automaton, changes, ahead, key=lambda match, rows: match[2:], find=find)
            except (oracle.OverflowInt, oracle.TooMany):
                continue
            expected[p] = Counter((by, change, (tuple((at, label) for (_, at), label in match[2]), *match[3:])) for change, by, match, _ in told)
        if not any(expected.values()):
            continue
        compared += 1
        words = f"CHANGES IN op ARRIVAL BY at{' CONSECUTIVE BY n' * automaton.consecutive} REPORT CHANGES{SPECULATE[ahead]}"
        text = clause_of(automaton, "CHANGE_NUMBER() AS m_no, CHANGE() AS m_change, CHANGED_BY() AS m_by, at AS m_at", words)
        got = run(text, {p: partitions[p] for p in expected})
        for p, changes_there in expected.items():
            rows = got.get(p, [])
            about = {row["m_no"]: (row["m_by"], row["m_change"]) for row in rows}
            assert Counter((*about[number], match) for number, match in reported_of(automaton, rows, "m_no", "m_at")) == changes_there, f"{text}\n{partitions[p]}"
            count += len(about)
    assert count > AUTOMATA


def random_arrivals(rng):
    """Rows that come in any order and go, with the turn of each change."""
    rows = random_rows(rng, rng.randrange(1, 8))
    if rng.random() < 0.7:
        rng.shuffle(rows)
    for n, row in enumerate(sorted(rows, key=lambda row: row["id"])):
        row["n"] = n
    changes, there = [], []
    for row in rows:
        changes.append(row | {"op": "insert"})
        there.append(row)
        while there and rng.random() < 0.3:
            gone = there.pop(rng.randrange(len(there)))
            changes.append(gone | {"op": "retract"})
            if rng.random() < 0.5:
                changes.append(gone | {"op": "insert"})
                there.append(gone)
    return [change | {"at": at} for at, change in enumerate(changes)]


def changes_of(graph, changes):
    """After each change the difference between the matches before and after."""
    out, there, before = [], {}, set()
    for change in changes:
        if change["op"] == "insert":
            there[change["id"]] = change
        else:
            del there[change["id"]]
        after = matches(graph, [there[id] for id in sorted(there)])
        out += [(change["at"], "retract", match) for match in before - after] + [(change["at"], "insert", match) for match in after - before]
        before = after
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", first(range(24), wider=2))
def test_changes_of_matches(seed, shape, monkeypatch):
    rng = random.Random(f"changes {shape} {seed}")
    if seed % 3 == 1:
        monkeypatch.setattr(register_arrays, "RECORDS", 1)
        monkeypatch.setattr(register_arrays, "MATCHES", 1)
    if seed % 2:
        monkeypatch.setattr(AppendOnly, "partitions", lambda self, chunk, turns, absent: absent[:0].any(keepdims=True).repeat(chunk.parts))
    count = 0
    for _ in range(AUTOMATA):
        graph = random_graph(rng, shape)
        partitions = {p: random_arrivals(rng) for p in range(PARTITIONS)}
        text = text_of(graph, "CHANGES IN op ARRIVAL BY at REPORT CHANGES", "CHANGE_NUMBER() AS m_no, CHANGE() AS m_change, CHANGED_BY() AS m_by")
        got = run(text, partitions)
        for p, changes in partitions.items():
            rows = got.get(p, [])
            about = {row["m_no"]: (row["m_by"], row["m_change"]) for row in rows}
            found = [(*about[number], match) for number, match in reported(rows)]
            assert [by for by, _, _ in found] == sorted(by for by, _, _ in found)
            assert Counter(found) == Counter(changes_of(graph, changes)), f"{text}\n{changes}"
            count += len(found)
        net = run(text_of(graph, "CHANGES IN op ARRIVAL BY at"), partitions)
        for p, changes in partitions.items():
            there = {}
            for change in changes:
                there[change["id"]] = change
                if change["op"] == "retract":
                    del there[change["id"]]
            assert Counter(match for _, match in reported(net.get(p, []))) == Counter(matches(graph, [there[id] for id in sorted(there)]))
    assert count > 3
