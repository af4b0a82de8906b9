"""Answers of sparkcep.why for ranked and approximate matches in this process. sqlite computes what Spark would compute."""

from __future__ import annotations

import sqlite3
import struct
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers.answer import Why
from sparkcep.tracing.answers.explain import Asked
from sparkcep.tracing.answers.overall import Totals
from sparkcep.tracing.conditions.question import Question
from sparkcep.tracing.kinds.arcs import question_of_arcs
from sparkcep.tracing.kinds.kinds import explain_overall, explain_rows
from sparkcep.tracing.kinds.listing import MATCHES
from sparkcep.tracing.rows.frozen import FrozenRows
from tests.support import why_examples
from tests.support.why_examples import frozen, question

TICKS = "1 10; 2 15; 3 9; 4 8; 5 12; 6 17; 7 14"
LETTERS = "1 a; 2 a; 3 b; 4 a; 5 x; 6 b; 17 a; 28 b"
PRICES = "1 9; 2 8; 3 7; 4 12; 5 8; 6 6; 7 3; 8 14"
STEPS = "1 a; 2 b; 3 a; 4 x; 5 c; 6 b; 7 x; 8 c"


class Example(why_examples.Example):
    """An example whose clause may begin with any option after ORDER BY."""

    @property
    def measured(self) -> str:
        first = min(at for word in ("EVENT", "PATTERN", "AUTOMATON", "WINDOW") if (at := self.clause.find(word)) >= 0)
        return f"{self.clause[:first]}MEASURES 1 AS one {self.clause[first:]}"


def compute(query: str, matches: pa.Table) -> pa.Table:
    """Runs a query of scores over matches. Arrays of positions become bytes with their order."""
    database = sqlite3.connect(":memory:")
    try:
        for name, count, function in (
            ("IF", 3, lambda test, yes, no: yes if test else no), ("typeof", 1, lambda value: "int"), ("isnan", 1, lambda value: value is not None and value != value),
            ("raise_error", 1, lambda text: None), ("concat", -1, lambda *texts: "".join(map(str, texts))),
            ("least", -1, lambda *values: min((v for v in values if v is not None), default=None)),
            ("greatest", -1, lambda *values: max((v for v in values if v is not None), default=None)),
        ):  # fmt: skip
            database.create_function(name, count, function)
        columns = {name: [_stored(value) for value in matches[name].to_pylist()] for name in matches.column_names}
        database.execute(f"CREATE TABLE matches ({', '.join(columns)})")
        database.executemany(f"INSERT INTO matches VALUES ({', '.join('?' * len(columns))})", zip(*columns.values(), strict=True))
        found = database.execute(query.replace(MATCHES, "matches"))
        names = [column[0] for column in found.description]
        return pa.table({name: pa.array(values) for name, values in zip(names, zip(*found.fetchall(), strict=True), strict=True)})
    finally:
        database.close()


def _stored(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return b"".join(struct.pack(">q", part) for part in value) if all(isinstance(part, int) for part in value) else str(value)


def totals(rows: FrozenRows) -> Totals:
    """The counts that Spark would return."""
    truths = {}
    for comparison in rows.question.comparisons:
        if column := rows.question.values[comparison.truth].column:
            found = rows.column(column)
            truths[comparison.number] = tuple(found.count(value) for value in (True, False, None))
    return Totals(rows.count, 1, truths)


def arcs(clause: str) -> Question:
    """An AUTOMATON taken apart."""
    return question_of_arcs(parse_clause(clause), replace(DEFAULT, prefilter=False))


def answered(example: Example, **options) -> Why:
    """The answer to an example. Its condition is one on the first column."""
    taken_apart = question if "AUTOMATON" not in example.clause else arcs
    rows = frozen(taken_apart(example.measured), example.names, example.values, example.names[0])
    if example.at is None and not example.arguments:
        return explain_overall([rows], totals(rows), DEFAULT, compute, words={}, **options)
    wanted = None if example.at is None else int(example.at.rpartition(" ")[2])
    at = tuple(i for i, row in enumerate(example.values) if row[0] == wanted)
    return explain_rows(rows, Asked(at, example.arguments.get("match"), example.arguments.get("expect")), compute, **options)


A_AND_B = """ORDER BY t AUTOMATON (
    REGISTER n INT = 0
    STATE q0 START, q3 FINAL
    ARC a FROM q0 TO q1 WHEN k = 'a' SET n = n + 1
    ARC more FROM q1 TO q1 WHEN k = 'a' SET n = n + 1
    ARC b FROM q1 TO q2 WHEN k = 'b' SET n = n - 1
    ARC FROM q2 TO q2 WHEN k = 'b' AND n > 0 SET n = n - 1
    ARC FROM q2 TO q3 ON EMPTY WHEN n = 0
  ) WINDOW 10"""
GAINS = """ORDER BY t AUTOMATON (
    REGISTER lows INT = 0, low INT
    STATE q0 START
    ARC FROM q0 TO q1 WHEN price < 10 SET low = price
    ARC down FROM q1 TO q1 WHEN price < low OR lows > 2 SET low = price, lows = lows + 1
    ARC up FROM q1 TO q0 WHEN price > 2 * low AND lows >= 2 EMIT (price - low AS gain)
  )"""
EXAMPLES = [
    Example(
        "K1", "ORDER BY day EVENT SELECTION SKIP TILL ANY MATCH PATTERN (BUY SELL) PREF MAX (SELL.price - BUY.price) TOP 2",
        "day price", TICKS,
        """
        Row 1 (day 1) is in no match that TOP 2 keeps.
        TOP 2 keeps 2 of 21 matches. 6 of them have the row.
          rank 1  score 9  rows 4 and 6 (BUY SELL)
          rank 2  score 8  rows 3 and 6 (BUY SELL)
          rank 3  score 7  rows 1 and 6 (BUY SELL)  left out
          ...
        TOP 2 keeps scores of 8 or more, and 7 is less.
        """,
        "day = 1",
    ),
    Example(
        "K2", "ORDER BY day EVENT SELECTION SKIP TILL ANY MATCH PATTERN (BUY SELL) PREF MAX (SELL.price - BUY.price) TOP 2",
        "day price", TICKS,
        """
        Match 2 takes rows 3 and 6: BUY SELL.
          It has rank 2 and score 8: MAX (SELL.price - BUY.price) = 8.
          rank 1  score 9  rows 4 and 6 (BUY SELL)
          rank 2  score 8  rows 3 and 6 (BUY SELL)
          rank 3  score 7  rows 1 and 6 (BUY SELL)  left out
          ...
        """,
        None, {"match": 2},
    ),
    Example(
        "K3", "ORDER BY day EVENT SELECTION SKIP TILL ANY MATCH PATTERN (BUY SELL) PREF MAX (SELL.price) TOP 1",
        "day price", TICKS,
        """
        Row 3 (day 3) is in no match that TOP 1 keeps.
        TOP 1 keeps 1 of 21 matches. 6 of them have the row.
          rank 1  score 17  rows 1 and 6 (BUY SELL)
          rank 2  score 17  rows 2 and 6 (BUY SELL)  left out
          rank 3  score 17  rows 3 and 6 (BUY SELL)  left out
          ...
        The scores of ranks 1 and 3 are equal. Of equal scores the match whose rows come first is kept: rows 1 and 6 before rows 3 and 6.
        """,
        "day = 3",
    ),
    Example(
        "K4", "ORDER BY day PATTERN (S UP+) PREF MAX (LAST(price)) AND MIN (count(*)) TOP 3 DEFINE UP AS price > PREV(price)",
        "day price", TICKS,
        """
        Row 3 (day 3) is in no match.
        No match starts here. The run that got farthest took row 3: S.
          It ended at row 4 (day 4). The pattern lets come next:
            UP  price > PREV(price)  8 > 9  false
          If "price > PREV(price)" were true at row 4, rows 3-6 would match: S UP UP UP.
        As a later row: the run of row 2 (S) ended here.
          It ended at row 3 (day 3). The pattern lets come next:
            UP  price > PREV(price)  9 > 15  false
          If "price > PREV(price)" were true at row 3, rows 2-3 would match: S UP.
        """,
        "day = 3",
    ),
    Example(
        "K5", "ORDER BY day EVENT SELECTION SKIP TILL ANY MATCH PATTERN (BUY SELL) WINDOW 4 SLIDE 2 PREF MAX (SELL.price - BUY.price) TOP 1",
        "day price", TICKS,
        """
        Row 3 (day 3) is in no match that TOP 1 keeps.
        TOP 1 keeps 1 of 3 matches in the window from 0. 2 of them have the row.
          rank 1  score  5  rows 1-2 (BUY SELL)
          rank 2  score -1  rows 1 and 3 (BUY SELL)  left out
          ...
        TOP 1 keeps scores of 5 or more, and -1 is less.
        TOP 1 keeps 1 of 6 matches in the window from 2. 3 of them have the row.
          rank 1  score 4  rows 4-5 (BUY SELL)
          rank 2  score 3  rows 3 and 5 (BUY SELL)  left out
          ...
        TOP 1 keeps scores of 4 or more, and 3 is less.
        """,
        "day = 3",
    ),
    Example(
        "K6", "ORDER BY day PATTERN (S UP+) PREF MAX (LAST(price)) AND MIN (count(*)) DEFINE UP AS price > PREV(price)",
        "day price", TICKS,
        """
        Row 2 (day 2) is in match 1 as UP.
        Match 1 takes rows 1-2: S UP.
          row 1  S   no other choice
          row 2  UP  no other choice
          end        UP comes first, refused:
                       price > PREV(price)  9 > 15  false
        Match 1 has score 13: MAX (LAST(price)) = 15, MIN (count(*)) = 2.
        """,
        "day = 2",
    ),
    Example(
        "K7", "ORDER BY day PATTERN (S UP+) PREF MAX (LAST(price)) AND MIN (count(*)) TOP 3 DEFINE UP AS price > PREV(price)",
        "day price", TICKS,
        """
        TOP 3 keeps 3 of 4 matches, in 7 rows of 1 partition.
        Scores: best 15, rank 3 13, rank 4 10.
        Matches begin at 3 rows.
        Conditions, over all rows:
                                   true  false  NULL
          UP  price > PREV(price)     3      3     1
        How far the runs of 7 start rows got:
          S           7  ####################
          UP          3  #########
          a match     3  #########
        They ended because a condition was false (3), the partition ended (1).
        Culprit: "price > PREV(price)" of UP alone stops 3 start rows; were it always true, there would be 6 matches.
        Nearest misses (one error):
          rows 2-3: S UP; row 3 taken as UP
          rows 3-6: S UP UP UP; row 4 taken as UP
          rows 6-7: S UP; row 7 taken as UP
          and 1 more
        """,
        None,
    ),
    Example(
        "K9", "ORDER BY id PATTERN (A B C) WINDOW 5 APPROX 1 DEFINE A AS kind = 'a', B AS kind = 'b', C AS kind = 'c'",
        "id kind", STEPS,
        """
        Row 3 (id 3) is in match 3 as A.
        Match 3 takes rows 3 and 6: A B (1 error: missing C).
        """,
        "id = 3",
    ),
    Example(
        "K10", "ORDER BY id EVENT SELECTION STRICT CONTIGUITY PATTERN (A B C) APPROX 1 DEFINE A AS kind = 'a', B AS kind = 'b', C AS kind = 'c'",
        "id kind", STEPS,
        """
        Row 6 (id 6) is in no match.
        No match with at most 1 error has the row.
        Found with APPROX 2: row 6 (B), 2 errors: missing A C.
        The exact search:
          Row 6 (id 6) is in no match.
          No match starts here: no variable that may come first takes the row.
            The pattern lets come first:
              A  kind = 'a'  'b' = 'a'  false
            No single comparison at row 6 would make a match.
        """,
        "id = 6",
    ),
    Example(
        "K11", "ORDER BY id EVENT SELECTION STRICT CONTIGUITY PATTERN (A B C) APPROX 1 DEFINE A AS kind = 'a', B AS kind = 'b', C AS kind = 'c'",
        "id kind", STEPS,
        """
        3 matches with APPROX 1 (0 without errors), 8 matches with APPROX 2, in 8 rows of 1 partition.
        Exact matches begin at 0 rows.
        Conditions, over all rows:
                         true  false  NULL
          A  kind = 'a'     2      6     0
          B  kind = 'b'     2      6     0
          C  kind = 'c'     2      6     0
        How far the runs of 8 start rows got:
          A           2  #####
          B           1  ##
          C           0
          a match     0
        They ended because a condition was false (8).
        Culprit: "kind = 'c'" of C alone stops 1 start row; were it always true, there would be 1 match.
        Then: "kind = 'b'" of B alone stops 1 start row; were it always true, there would be 1 match.
        Then: "kind = 'a'" of A alone stops 6 start rows; were it always true, there would be 0 matches.
        With EVENT SELECTION SKIP TILL NEXT MATCH there would be 1 match: rows between are passed over.
        Nearest misses (one error):
          rows 1-3: A B C; row 3 taken as C
          rows 3-5: A B C; row 4 taken as B
        """,
        None,
    ),
    Example(
        "K12", "ORDER BY id EVENT SELECTION STRICT CONTIGUITY PATTERN (A B C) APPROX 0 DEFINE A AS kind = 'a', B AS kind = 'b', C AS kind = 'c'",
        "id kind", STEPS,
        """
        Row 4 (id 4) is in no match.
        No match with at most 0 errors has the row.
        Found with APPROX 1: rows 3-5 (A B C), 1 error: row 4 substituted for B.
        The exact search:
          Row 4 (id 4) is in no match.
          No match starts here: no variable that may come first takes the row.
            The pattern lets come first:
              A  kind = 'a'  'x' = 'a'  false
            No single comparison at row 4 would make a match.
          As a later row: the run of row 3 (A) ended here.
            It ended at row 4 (id 4). The pattern lets come next:
              B  kind = 'b'  'x' = 'b'  false
            If "kind = 'b'" were true at row 4, rows 3-5 would match: A B C.
        """,
        "id = 4",
    ),
    Example(
        "K13", "ORDER BY id EVENT SELECTION STRICT CONTIGUITY PATTERN (A B C) APPROX 1 ALL MATCHES DEFINE A AS kind = 'a', B AS kind = 'b', C AS kind = 'c'",
        "id kind", STEPS,
        """
        Match 3 takes rows 3-5: A B C (1 error: row 4 substituted for B).
        """,
        None, {"match": 3},
    ),
    Example(
        "K14", "ORDER BY day EVENT SELECTION SKIP TILL ANY MATCH PATTERN (BUY SELL) PREF MAX (SELL.price - BUY.price) TOP 2",
        "day price", TICKS,
        """
        Row 5 (day 5) is not SELL in a match that TOP 2 keeps.
        The best match with the row as SELL has rank 9: rows 4-5 (BUY SELL).
        TOP 2 keeps 2 of 21 matches.
          rank 1  score 9  rows 4 and 6 (BUY SELL)
          rank 2  score 8  rows 3 and 6 (BUY SELL)
          rank 3  score 7  rows 1 and 6 (BUY SELL)  left out
          ...
          rank 9  score 4  rows 4-5 (BUY SELL)  left out
          ...
        TOP 2 keeps scores of 8 or more, and 4 is less.
        """,
        "day = 5", {"expect": "SELL"},
    ),
    Example(
        "K15", A_AND_B, "t k", LETTERS,
        """
        Row 1 (t 1) is in no match.
        No match begins here. The computation with most rows took rows 1-3: a, more, b.
          It ended at row 4 (t 4) in state q2 with n 1, which is not FINAL.
          Its arcs:
            arc 4 to q2  k = 'b'  'a' = 'b'  false
                         n > 0    1 > 0      true
                         SET n = n - 1
            arc 5 to q3  ON EMPTY
                         n = 0  1 = 0  false
        """,
        "t = 1",
    ),
    Example(
        "K16", A_AND_B, "t k", LETTERS,
        """
        Row 2 (t 2) is in match 1.
        Match 1 takes rows 2-3, with n 0 at its end.
          Its arcs: a, b.
        """,
        "t = 2",
    ),
    Example(
        "K17", A_AND_B, "t k", LETTERS,
        """
        Row 7 (t 17) is in no match.
        No match begins here. The computation with most rows took row 7: a.
          It ended in state q1 with n 1, which is not FINAL: row 8 (t 28) is outside of its lifetime (WINDOW 10).
        """,
        "t = 17",
    ),
    Example(
        "K18", A_AND_B, "t k", LETTERS,
        """
        1 match in 8 rows of 1 partition.
        Comparisons of the row, over all rows:
                          true  false  NULL
          a      k = 'a'     4      4     0
          more   k = 'a'     4      4     0
          b      k = 'b'     3      5     0
          arc 4  k = 'b'     3      5     0
        States that the computations of 8 first rows reached:
          q1          4  ##########
          q2          2  #####
          q3          1  ##
          a match     1  ##
        Others ended because no arc took the first row (4), no arc took the next row (2), the lifetime ended (1).
        """,
        None,
    ),
    Example(
        "K19", GAINS, "t price", PRICES,
        """
        Row 4 (t 4) is in no match.
        No match begins here: no arc of q0 takes the row.
          The arcs of q0:
            arc 1 to q1  price < 10  12 < 10  false
                         SET low = price
        As a later row: the computation of rows 1-3 ended here.
          It ended at row 4 (t 4) in state q1 with lows 2, low 7, which is not FINAL.
          Its arcs:
            down to q1  price < low  12 < 7  false
                        lows > 2     2 > 2   false
                        needs price < low; or lows > 2
                        SET low = price, lows = lows + 1
            up to q0    price > 2 * low  12 > 14  false
                        lows >= 2        2 >= 2   true
        """,
        "t = 4",
    ),
    Example(
        "K20", GAINS, "t price", PRICES,
        """
        Match 1 takes rows 5-8, with lows 2, low 3, gain 11 at its end.
          Its arcs: arc 1, down x2, up.
        """,
        None, {"match": 1},
    ),
    Example(
        "K21", "ORDER BY day PATTERN (A{4}) WINDOW 4 ROWS SLIDE 2 ROWS PREF MAX (SUM(price)) TOP 1 DEFINE A AS price > 11", "day price",
        "1 9; 2 10; 3 9; 4 12; 5 13; 6 14; 7 15; 8 2",
        """
        Row 4 (day 4) is in no match that lies in a sliding window.
        Rows 4-7 (A x4) would match without SLIDE, but no window of WINDOW 4 ROWS SLIDE 2 ROWS holds all of its rows.
        """,
        "day = 4",
    ),
]
