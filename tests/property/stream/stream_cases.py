"""``python -m tests.property.stream.stream_cases [--cases N] [--families WORDS] [--jobs N] [--seed TEXT]``: random statements of
every kind over random streams against tables, counted.

A case is a statement with a stream of its own: rows in disorder, cut into micro-batches anywhere, with bytes alone between these.
It counts if it emits matches. After each micro-batch these are compared with the same statement's over tables of the rows that
have come. Tables cannot have histories and arcs that change, nor arcs ON EXPIRY: there the definition in tests/oracle is compared.
A case that differs is printed with its name (``--case 'BUDGET 17'`` tries it alone), and the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from sparkcep.errors import ClauseError
from sparkcep.plan.reach import Reach
from tests.oracle import automaton as oracle
from tests.property.stream import (
    list_changes,
    named_sequences,
    statements,
    streams,
    test_stream_arcs,
    test_stream_buckets,
    test_stream_budget,
    test_stream_changes,
    test_stream_expiries,
    test_stream_next,
    test_stream_promises,
    test_stream_sessions,
    top_k,
    watermarks,
)
from tests.property.unfinished import unfinished_streams

# what is said of a statement that does not stream, which is no case
NO_CASE = ("STREAM", "PATTERN_TOO_COMPLEX", "BUDGET", "APPROX", "AUTOMATON", "DATATYPE_MISMATCH", "ARITHMETIC_OVERFLOW", "CAST_OVERFLOW", "ARC_TEXT")
Compare = Callable[[random.Random], "tuple[str, int] | None"]
"""Draws a statement and compares; the statement and how many rows were compared, None where there was nothing to compare."""


def _stated(make: Callable[[random.Random], str], has: str = "", lacks: str = "") -> Callable[[random.Random], str]:
    """A statement that has the words of one regular expression, and lacks those of another."""

    def drawn(rng: random.Random) -> str:
        while True:
            text = make(rng)
            if re.search(has, text) and not (lacks and re.search(lacks, text)):
                return text

    return drawn


def _ahead(make: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    """A statement with NEXT in place of PREV."""

    def drawn(rng: random.Random) -> str:
        text = _stated(make, "PREV|NEXT")(rng)
        return re.sub(r"PREV", "NEXT", text) if rng.random() < 0.7 else text

    return drawn


def _of_kinds(rng: random.Random) -> str:
    return statements.KINDS[rng.choice([*statements.KINDS])][0](rng)


def _of_wide_kinds(rng: random.Random) -> str:
    wider = [statements.wider_adjacent_rows, statements.wider_selection, statements.wider_numbers, statements.by_rows, statements.printed_automata, statements.approximate]
    return rng.choice(wider)(rng)


def _in_turn(make: Callable[[random.Random], str], compare=None) -> Compare:
    def compared(rng: random.Random):
        text = make(rng)
        return text, streams.tried(text, rng, compare) or 0

    return compared


def _in_time(make: Callable[[random.Random], str], compare: Callable[[str, random.Random], tuple[int, int]]) -> Compare:
    """The same by another comparison, of a statement whose windows are of time."""

    def compared(rng: random.Random):
        text = streams.in_time(make(rng))
        return text, compare(text, rng)[0]

    return compared


def _late(text: str, rng: random.Random) -> tuple[int, int]:
    plan = streams.planned(text)
    return test_stream_buckets.compared(text, rng, bool(plan.windows) and plan.windows[0].kind == "micros" and not Reach.of(plan).ahead)


def _changes(text: str, rng: random.Random) -> tuple[int, int]:
    return test_stream_changes.compared(text, rng, 3, 6)


def _revised(rng: random.Random) -> str:
    return rng.choice([test_stream_changes.random_automaton, test_stream_changes.random_pattern])(rng)


def _longer(text: str, rng: random.Random) -> int:
    """Compares over few long keys, or many short ones, with columns of other types."""
    return streams.compared(text, rng, *rng.choice([(5, 8), (3, 16), (2, 24)]), retyped="AUTOMATON" not in text)


def _by_rows_revised(rng: random.Random) -> str:
    return test_stream_changes.templated(statements.by_rows(rng, "<changes>", "<own>"))


def _choices(**options) -> Compare:
    return lambda rng: ("a query of the definition's", test_stream_budget.compare(rng, 1, **options)["told"])


FAMILIES: dict[str, Compare] = {
    "adjacent rows (R010)": _in_turn(statements.adjacent_rows),
    "event selection, FIRST MATCH": _in_turn(_stated(statements.event_selection, lacks="~|&|ALL MATCHES")),
    "event selection, ALL MATCHES": _in_turn(_stated(statements.event_selection, "ALL MATCHES", "~|&")),
    "event selection, ALL MATCHES told at once": _in_turn(statements.told_at_once),
    "NEXT, exactly what is released": test_stream_next.compared,
    "NEXT, adjacent rows": _in_turn(_ahead(statements.adjacent_rows)),
    "NEXT, event selection": _in_turn(_ahead(statements.event_selection)),
    "NEXT, told at once": _in_turn(_ahead(statements.told_at_once)),
    "NEXT, MATCH_COUNT, MATCH_GRAPH": _in_turn(_ahead(statements.numbers_and_graphs)),
    "NEXT, TOP k, SLIDE": _in_turn(_ahead(top_k.random_late), top_k.compared_best),
    "negation": _in_turn(_stated(statements.event_selection, "~", "&")),
    "conjunction": _in_turn(_stated(statements.event_selection, "&")),
    "MATCH_COUNT": _in_turn(_stated(statements.numbers_and_graphs, "MATCH_COUNT")),
    "MATCH_GRAPH": _in_turn(_stated(statements.numbers_and_graphs, "MATCH_GRAPH")),
    "MATCH_COUNT, MATCH_GRAPH with ^, ~ behind": _in_turn(statements.ends_of_matches),
    "APPROX PROXY MATCHES": _in_turn(_stated(statements.approximate, "PROXY MATCHES")),
    "APPROX ALL MATCHES": _in_turn(_stated(statements.approximate, "ALL MATCHES")),
    "MATCH BUNDLES": _in_turn(_stated(statements.approximate, "MATCH BUNDLES")),
    "APPROX with ^, ~ behind": _in_turn(statements.ends_of_approximate_matches),
    "BUDGET": _in_turn(test_stream_budget.random_statement),
    "BUDGET USING HISTORY that changes": _choices(histories=3),
    "BUDGET beside a negation": _choices(histories=3, some_query=test_stream_budget.random_hindered),
    "TOP k, SLIDE": _in_turn(top_k.random_top, top_k.compared_best),
    "TOP k, SLIDE of APPROX": _in_turn(top_k.random_near, top_k.compared_best),
    "TOP k, SLIDE that waits": _in_turn(top_k.random_late, top_k.compared_best),
    "TOP k, SLIDE, REPORT CHANGES": _in_turn(list_changes.random_changes, list_changes.compared_changes),
    "AUTOMATON": _in_turn(statements.automata),
    "AUTOMATON, ON EXPIRY": lambda rng: ("an automaton of the definition's", test_stream_expiries.compared(rng.choice(test_stream_expiries.KINDS), rng)[0]),
    "ARCS FROM a table that changes": lambda rng: ("an automaton of the definition's", test_stream_arcs.compared(rng, rng.choice(["told once", "changes"]), rng.random() < 0.5)),
    "UNMATCHED ROWS": _in_turn(_stated(_of_kinds, "UNMATCHED")),
    "unfinished matches": unfinished_streams.counted,
    "REPORT CHANGES": _in_time(_revised, _changes),
    "REPORT CHANGES, PUNCTUATE BY": lambda rng: ("a statement of test_stream_promises", test_stream_promises.compared(rng.choice(test_stream_promises.TEXTS), rng.choice("vs"), rng)[0]),
    "idleTimeout": _in_time(_of_kinds, lambda text, rng: test_stream_sessions.compared(text, rng, 5, 8)),
    "idleTimeout, REPORT CHANGES": _in_time(_revised, test_stream_sessions.compared_changes),
    # what is an error over a table, is one over a stream that has read so far
    "late rows (buckets)": _in_time(_stated(_of_kinds, lacks="SKIP TO (FIRST|LAST)"), _late),
}
# the same families, with all that their clauses may have
WIDER: dict[str, Compare] = {
    "adjacent rows, labels and strings": _in_turn(statements.wider_adjacent_rows, _longer),
    "event selection, all shapes": _in_turn(statements.wider_selection, _longer),
    "MATCH_COUNT, MATCH_GRAPH, all shapes": _in_turn(statements.wider_numbers, _longer),
    "TOP k, SLIDE, all shapes": _in_turn(top_k.random_shapes, top_k.compared_best),
    "TOP k, SLIDE of named sequences": named_sequences.compared,
    "APPROX of sides": _in_turn(statements.approximate_sides),
    "AUTOMATON BY ROWS": _in_turn(statements.by_rows, _longer),
    "AUTOMATON of a PATTERN": _in_turn(statements.printed_automata),
    "REPORT CHANGES, AUTOMATON BY ROWS": _in_time(_by_rows_revised, lambda text, rng: test_stream_changes.compared(text, rng, 3, 6, identified=False)),
    "watermark that is passed on": _in_turn(_stated(_of_wide_kinds, lacks="SKIP TO (FIRST|LAST)"), watermarks.told_in_time),
    "idleTimeout, all shapes": _in_time(_of_wide_kinds, lambda text, rng: test_stream_sessions.compared(text, rng, 3, 14)),
}


@dataclass
class Tally:
    """What was compared of a family. ``differ``: (name of the case, its statement, what was said)."""

    family: str
    cases: int = 0
    rows: int = 0
    differ: list[tuple[str, str, str]] = field(default_factory=list)


def tried(family: str, number: int, seed: str) -> tuple[int, tuple[str, str, str] | None]:
    """How many rows one case compared, and how it differs, if it does."""
    rng, name = random.Random(f"{seed} {family} {number}"), f"{family} {number}"
    try:
        return (FAMILIES | WIDER)[family](rng)[1], None
    except (oracle.OverflowInt, oracle.TooMany):
        return 0, None
    except ClauseError as error:
        return 0, None if error.error_class.removeprefix("SPARKCEP.") in NO_CASE else (name, str(error), traceback.format_exc())
    except Exception as error:  # of a stream alone, which a table does not have
        return 0, (name, type(error).__name__, traceback.format_exc())


def some(family: str, cases: int, seed: str) -> Tally:
    """So many cases of a family."""
    tally = Tally(family)
    for number in itertools.count():
        rows, differs = tried(family, number, seed)
        if differs:
            tally.differ.append(differs)
        tally.cases += rows > 0 or differs is not None
        tally.rows += rows
        if tally.cases == cases or number > 100 * cases:
            return tally


def shares(cases: int, families: list[str]) -> Iterator[tuple[str, int]]:
    """How many cases each family has of all."""
    for number, family in enumerate(families):
        yield family, (number + 1) * cases // len(families) - number * cases // len(families)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.stream.stream_cases", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--families", default="", help="only families with these words; all unless told")
    parser.add_argument("--case", help="one case, by its name")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", default="0")
    options = parser.parse_args(arguments)
    if options.case:
        family, _, number = options.case.rpartition(" ")
        rows, differs = tried(family, int(number), options.seed)
        print(f"{rows} rows compared" if differs is None else differs[2])
        return int(differs is not None)
    families = [family for family in FAMILIES | WIDER if options.families in family]
    if not families:
        parser.error(f"no family has the words {options.families!r}; there are {', '.join(FAMILIES | WIDER)}")
    begin, found = time.monotonic(), []
    print(f"{'family':<44}{'cases':>8}{'rows compared':>16}{'differ':>8}")
    with ProcessPoolExecutor(options.jobs) as pool:
        for tally in pool.map(some, *zip(*shares(options.cases, families)), itertools.repeat(options.seed)):
            print(f"{tally.family:<44}{tally.cases:>8,}{tally.rows:>16,}{len(tally.differ):>8}", flush=True)
            found.append(tally)
    differ = [one for tally in found for one in tally.differ]
    print(f"{'all':<44}{sum(t.cases for t in found):>8,}{sum(t.rows for t in found):>16,}{len(differ):>8}   in {time.monotonic() - begin:,.0f} s")
    for name, said, told in differ:
        print(f"\n{name}: {said}\n{told}")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
