"""The worked examples of sparkcep.why: clause, rows, question and answer, to the letter.

``frozen`` answers them in this process, with sqlite for what Spark computes; tests/spark/report/test_why.py asks Spark.
"""

from __future__ import annotations

import sqlite3
import textwrap
from dataclasses import dataclass, field, replace

import pyarrow as pa

from sparkcep.clause.parser import parse_clause
from sparkcep.plan.extend.unfinished import CLOCK, clock_text
from sparkcep.plan.plan import LETTERS
from sparkcep.plan.split.conditions import ORDER
from sparkcep.settings import DEFAULT
from sparkcep.tracing.answers.hints import Totals
from sparkcep.tracing.conditions.question import ROW, Question, question_of
from sparkcep.tracing.rows.frozen import FrozenRows
from tests.support.caught import without_catching


@dataclass(frozen=True)
class Example:
    """A question over a table ``t``. ``rows`` has one row per ``;``, and NULL for NULL."""

    name: str
    clause: str
    columns: str
    rows: str
    answer: str
    at: str | None = None
    arguments: dict = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return self.columns.split()

    @property
    def values(self) -> list[tuple]:
        return [tuple(None if v == "NULL" else int(v) if v.isdigit() else v for v in row.split()) for row in self.rows.split(";")]

    @property
    def table(self) -> str:
        """The rows as a table of SQL."""

        def literal(value: object) -> str:
            return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)

        rows = ", ".join(f"({', '.join(map(literal, row))})" for row in self.values)
        return f"VALUES {rows} AS t({', '.join(self.names)})"

    @property
    def measured(self) -> str:
        """The clause with a measure, which a statement needs."""
        word = min((word for word in ("ONE ROW", "AFTER MATCH", "EVENT", "WINDOW", "PATTERN") if word in self.clause), key=self.clause.index)
        return self.clause.replace(word, f"MEASURES 1 AS one {word}", 1)

    @property
    def text(self) -> str:
        return textwrap.dedent(self.answer).strip("\n")


V_PATTERN = "PATTERN (STRT DOWN{2,} UP) DEFINE DOWN AS price < PREV(price) AND volume > 1000, UP AS price > PREV(price)"
EXAMPLES = [
    Example(
        "E1", f"ORDER BY day {V_PATTERN}", "day price volume", "1 10 2000; 2 9 1500; 3 8 NULL; 4 11 1200; 5 12 1300; 6 9 1100; 7 8 1100; 8 10 900",
        """
        Row 1 (day 1) is in no match.
        No match starts here. The run that got farthest took rows 1-2: STRT DOWN.
          It ended at row 3 (day 3). The pattern lets come next:
            DOWN  price < PREV(price)  8 < 9        true
                  volume > 1000        NULL > 1000  NULL: volume is NULL in row 3
          If "volume > 1000" were true at row 3, rows 1-4 would match: STRT DOWN DOWN UP.
        """,
        "day = 1",
    ),
    Example(
        "E2", "ORDER BY day PATTERN (UP{2}) DEFINE UP AS price > PREV(price)", "day price", "1 3; 2 2; 3 5",
        """
        Row 1 (day 1) is in no match.
        No match starts here: no variable that may come first takes the row.
          The pattern lets come first:
            UP  price > PREV(price)  3 > NULL  NULL: PREV(price) looks before the partition's first row
          No single comparison at row 1 would make a match.
        """,
        "day = 1",
    ),
    Example(
        "E3", "ORDER BY day PATTERN (L F) DEFINE L AS e = 'login', F AS e = '2fa'", "day e", "1 login; 2 click; 3 login",
        """
        Row 3 (day 3) is in no match.
        No match starts here. The run that got farthest took row 3: L.
          It ended because the partition ends after row 3. F should come next.
        """,
        "day = 3",
    ),
    Example(
        "E4", "ORDER BY t WINDOW 10 PATTERN (A+ B) DEFINE A AS e = 'a', B AS e = 'b'", "t e", "0 a; 4 a; 12 b",
        """
        Row 1 (t 0) is in no match.
        No match starts here. The run that got farthest took rows 1-2: A A.
          It ended at row 3 (t 12): the row is outside of WINDOW 10 (t 12 - 0 = 12, and 12 < 10 is false).
        """,
        "t = 0",
    ),
    Example(
        "E5", "ORDER BY t PATTERN (A B) DEFINE A AS x = 1, B AS NOT (x BETWEEN 10 AND 20) AND y > 5 OR y = 8 AND x < 100", "t x y", "1 1 0; 2 12 7",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took row 1: A.
          It ended at row 2 (t 2). The pattern lets come next:
            B  x BETWEEN 10 AND 20  12 BETWEEN 10 AND 20  true
               y > 5                7 > 5                 true
               y = 8                7 = 8                 false
               x < 100              12 < 100              true
               needs not x BETWEEN 10 AND 20; or y = 8
          If "x BETWEEN 10 AND 20" were false at row 2, rows 1-2 would match: A B.
        """,
        "t = 1",
    ),
    Example(
        "E6", "ORDER BY t PATTERN (A B A? | A C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'", "t e", "1 a; 2 b; 3 a; 4 c",
        """
        Row 4 (t 4) is in no match.
        No match starts here: no variable that may come first takes the row.
          The pattern lets come first:
            A  e = 'a'  'c' = 'a'  false
          No single comparison at row 4 would make a match.
        Lost to match 1: rows 3-4 would match (A C), but match 1 has row 3 (t 3), and AFTER MATCH SKIP PAST LAST ROW goes on at row 4. AFTER MATCH SKIP TO NEXT ROW reports both.
        """,
        "t = 4",
    ),
    Example(
        "E7", "ORDER BY t PATTERN (A | A B) DEFINE A AS e = 'a', B AS e = 'b'", "t e", "1 a; 2 b",
        """
        Row 2 (t 2) is not in match 1, which takes row 1: A.
          B could take row 2, but the pattern prefers to end first: a reluctant quantifier or an earlier alternative.
          Another way has it: A B, rows 1-2. At row 1 A number 1 of PATTERN is preferred to A number 2 of PATTERN.
        """,
        "t = 2", {"match": 1},
    ),
    Example(
        "E8", "ORDER BY day PATTERN (STRT UP+?) DEFINE UP AS price > PREV(price)", "day price", "1 5; 2 6; 3 7",
        """
        Row 3 (day 3) is not in match 1, which takes rows 1-2: STRT UP.
          UP could take row 3, but the pattern prefers to end first: a reluctant quantifier or an earlier alternative.
        """,
        "day = 3", {"match": 1},
    ),
    Example(
        "E9", "ORDER BY day PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)", "day price",
        "1 9; 2 8; 3 7; 4 8; 5 9; 6 9",
        """
        Match 1 takes rows 1-5: STRT DOWN DOWN UP UP.
          row 1  STRT  no other choice
          row 2  DOWN  no other choice
          row 3  DOWN  no other choice
          row 4  UP    DOWN comes first, refused:
                         price < PREV(price)  8 < 7  false
          row 5  UP    preferred to the end of the match, which would match too
          end          UP comes first, refused:
                         price > PREV(price)  9 > 9  false
        """,
        None, {"match": 1},
    ),
    Example(
        "E10", "ORDER BY t PATTERN (A+ B) DEFINE A AS v > 0, B AS v > 4", "t v", "1 1; 2 5; 3 6; 4 0",
        """
        Row 2 (t 2) is not B.
        The run of row 1 (A) lets B come here:
          v > 4  5 > 4  true
          B was not tried: A is preferred here and leads to match 1.
        """,
        "t = 2", {"expect": "B"},
    ),
    Example(
        "E11", "ORDER BY t PATTERN (A+ B) DEFINE A AS count(A.*) = 1 OR v > LAST(A.v, 1), B AS v > 2 * avg(A.v)", "t v", "1 10; 2 12; 3 14; 4 13; 5 30",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took rows 1-3: A A A.
          It ended at row 4 (t 4). The pattern lets come next:
            A  count(A.*) = 1    4 = 1    false
               v > LAST(A.v, 1)  13 > 14  false
               needs count(A.*) = 1; or v > LAST(A.v, 1)
            B  v > 2 * avg(A.v)  13 > 24  false
          If "count(A.*) = 1" were true at row 4, rows 1-5 would match: A x4 B.
        """,
        "t = 1",
    ),
    Example(
        "E12", f"ORDER BY day {V_PATTERN}", "day price volume", "1 10 900; 2 9 800; 3 8 700; 4 11 900; 5 9 950; 6 8 990; 7 12 800; 8 11 700",
        """
        No match in 8 rows of 1 partition.
        Conditions, over all rows:
                                     true  false  NULL
          DOWN  price < PREV(price)     5      2     1
                volume > 1000           0      8     0  never true
          UP    price > PREV(price)     2      5     1
        How far the runs of 8 start rows got:
          STRT        8  ####################
          DOWN        0
          UP          0
          a match     0
        They ended because a condition was false (7), the partition ended (1).
        Culprit: "volume > 1000" of DOWN alone stops 5 start rows; were it always true, there would be 1 match.
        """,
    ),
    Example(
        "E13", "ORDER BY t PATTERN (F{3}) DEFINE F AS status = 'FAIL'", "t status", "1 fail; 2 fail; 3 fail; 4 ok",
        """
        No match in 4 rows of 1 partition.
        Conditions, over all rows:
                              true  false  NULL
          F  status = 'FAIL'     0      4     0  never true
        How far the runs of 4 start rows got:
          F           0
          a match     0
        They ended because a condition was false (4).
        Culprit: "status = 'FAIL'" of F alone stops 4 start rows; were it always true, there would be 1 match.
        Hint: status is never 'FAIL'; it is 'fail' in 3 rows. They differ only in case or blanks.
        """,
    ),
    Example(
        "E14", "ORDER BY t PATTERN (F{3}) DEFINE F AS status = 'fail'", "t status", "1 fail; 2 fail; 3 ok; 4 fail; 5 ok",
        """
        No match in 5 rows of 1 partition.
        Conditions, over all rows:
                              true  false  NULL
          F  status = 'fail'     3      2     0
        How far the runs of 5 start rows got:
          F           3  ############
          a match     0
        They ended because a condition was false (5).
        Culprit: "status = 'fail'" of F alone stops 5 start rows; were it always true, there would be 1 match.
        With EVENT SELECTION SKIP TILL NEXT MATCH there would be 1 match: rows between are passed over.
        Nearest misses (one error):
          rows 1-3: F F F; row 3 taken as F
          rows 2-4: F F F; row 3 taken as F
        """,
    ),
]  # fmt: skip


def question(clause: str) -> Question:
    """The question about the text between the parentheses of a clause, which may lack MEASURES."""
    return question_of(parse_clause(clause), replace(DEFAULT, prefilter=False))


def frozen(asked: Question, names: list[str], values: list[tuple], order: str) -> FrozenRows:
    """The rows with the columns that Spark would compute. sqlite computes them."""
    plan = without_catching(asked.plan)
    wanted = {name: clock_text(asked.unfinished, "t").replace("IF(", "iif(") if name == CLOCK else text for name, text in plan.inputs}
    for name, text in (*plan.ordered_inputs, *asked.columns):
        wanted[name] = text.replace(ORDER, f"ORDER BY {order}").replace("IF(", "iif(")
    if plan.letters:
        wanted[LETTERS] = " + ".join(f"(CASE WHEN {text} THEN {1 << bit} ELSE 0 END)" for _, bit, text in plan.letters)
    database = sqlite3.connect(":memory:")
    try:
        database.execute(f"CREATE TABLE t ({', '.join(names)})")
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", values)
        selected = ", ".join(f"{text} AS {name}" for name, text in wanted.items())
        found = list(zip(*database.execute(f"SELECT {selected} FROM t ORDER BY {order}"), strict=True)) or [()] * len(wanted)
    finally:
        database.close()
    truths = {asked.values[comparison.truth].column for comparison in asked.comparisons}
    columns = {name: pa.array([None if v is None else bool(v) for v in column] if name in truths else column) for name, column in zip(wanted, found, strict=True)}
    return FrozenRows(asked, pa.table(columns | {ROW: pa.array(range(len(values)), pa.int64())}))


def totals(rows: FrozenRows) -> Totals:
    """The counts that Spark would return."""
    truths = {}
    for comparison in rows.question.comparisons:
        if column := rows.question.values[comparison.truth].column:
            found = rows.column(column)
            truths[comparison.number] = tuple(found.count(value) for value in (True, False, None))
    return Totals(rows.count, 1, truths)
