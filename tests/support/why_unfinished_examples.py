"""Worked examples of sparkcep.why under SHOW UNFINISHED MATCHES and SHOW TIMEOUT MATCHES."""

from __future__ import annotations

from tests.support.why_examples import Example

_ABC = "DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'"
UNFINISHED = [
    Example(
        "F1", f"ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A B C) {_ABC}", "t e", "1 a; 2 b; 3 x; 4 a; 5 b",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took rows 1-2: A B.
          It ended at row 3 (t 3). The pattern lets come next:
            C  e = 'c'  'x' = 'c'  false
          If "e = 'c'" were true at row 3, rows 1-3 would match: A B C.
          SHOW UNFINISHED MATCHES returns this run: BROKEN at t 3, expected C.
        """, "t = 1",
    ),
    Example(
        "F2", f"ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A B C) {_ABC}", "t e", "1 a; 2 b; 3 x; 4 a; 5 b",
        """
        Row 2 (t 2) is in no match.
        It is B in the unfinished match of rows 1-2 (A B): BROKEN at t 3, expected C.
        No match starts here: no variable that may come first takes the row.
          The pattern lets come first:
            A  e = 'a'  'b' = 'a'  false
          No single comparison at row 2 would make a match.
        As a later row: the run of rows 1-2 (A B) took it as B.
          It ended at row 3 (t 3). The pattern lets come next:
            C  e = 'c'  'x' = 'c'  false
          If "e = 'c'" were true at row 3, rows 1-3 would match: A B C.
        """, "t = 2",
    ),
    Example(
        "F3", f"ORDER BY t ONE ROW PER MATCH SHOW TIMEOUT MATCHES EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) WINDOW 3 {_ABC}", "t e", "1 a; 2 b; 3 x; 9 a; 10 b",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took rows 1-2: A B.
          It ended because no later row goes on (row 3; the next row is outside of WINDOW 3 (t 9 - 1 = 8, and 8 < 3 is false)). The pattern lets come next:
            C  refused by 1 row, here row 3 (t 3):
              e = 'c'  'x' = 'c'  false
          If "e = 'c'" were true at row 3, rows 1-3 would match: A B C.
          SHOW TIMEOUT MATCHES returns this run: TIMED OUT at t 4, expected C.
        """, "t = 1",
    ),
    Example(
        "F4", f"ORDER BY t ONE ROW PER MATCH SHOW TIMEOUT MATCHES EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) WINDOW 3 {_ABC}", "t e", "1 a; 2 b; 3 x; 9 a; 10 b",
        """
        Row 4 (t 9) is in no match.
        No match starts here. The run that got farthest took rows 4-5: A B.
          It ended because the partition ends after row 5. C should come next.
          SHOW TIMEOUT MATCHES does not return this run: OPEN, expected C.
        """, "t = 9",
    ),
    Example(
        "F5", f"ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES EVENT SELECTION SKIP TILL NEXT MATCH PATTERN ((A B C) WITHIN 3 | A D) {_ABC}, D AS e = 'd'", "t e", "0 a; 1 b; 9 x",
        """
        Row 1 (t 0) is in no match.
        No match starts here. The run that got farthest took rows 1-2: A B.
          It ended because no later row goes on (row 3). The pattern lets come next:
            C  row 3 (t 9): the row is outside of WITHIN 3 (t 9 - 0 = 9, and 9 < 3 is false)
          SHOW UNFINISHED MATCHES returns another run of this start row, because an open run comes first: row 1 (A), OPEN, expected D.
        """, "t = 0",
    ),
    Example(
        "F6", "ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES PATTERN (A+ B C) DEFINE A AS e < 'd', B AS e = 'c', C AS e = 'x'", "t e", "1 a; 2 b; 3 c; 4 d",
        """
        Row 2 (t 2) is in no match.
        It is A in the unfinished match of rows 1-3 (A A B): BROKEN at t 4, expected C.
        No match starts here. The run that got farthest took rows 2-3: A B.
          It ended at row 4 (t 4). The pattern lets come next:
            C  e = 'x'  'd' = 'x'  false
          If "e = 'x'" were true at row 4, rows 2-4 would match: A B C.
          SHOW UNFINISHED MATCHES does not return this run, because row 2 is inside the unfinished match of rows 1-3 (A A B). AFTER MATCH SKIP TO NEXT ROW returns both.
        As a later row: the run of rows 1-3 (A A B) took it as A.
          It ended at row 4 (t 4). The pattern lets come next:
            C  e = 'x'  'd' = 'x'  false
          If "e = 'x'" were true at row 4, rows 1-4 would match: A A B C.
        """, "t = 2",
    ),
    Example(
        "F7", "ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~B) WINDOW 5 DEFINE A AS e = 'a', B AS e = 'b'", "t e", "0 a; 2 b; 9 x",
        """
        Row 1 (t 0) is in no match.
        No match starts here. The run that got farthest took row 1: A.
          Row 1 would match, but ~B looks at row 2 and forbids row 2:
            B  e = 'b'  'b' = 'b'  true
          SHOW UNFINISHED MATCHES returns this run: BROKEN at t 2.
        """, "t = 0",
    ),
    Example(
        "F8", f"ORDER BY t ONE ROW PER MATCH SHOW UNFINISHED MATCHES AS OF 50 AFTER MATCH SKIP TO NEXT ROW EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A+ B) WINDOW 30 {_ABC.partition(', C')[0]}",
        "t e", "1 a; 2 a; 3 a; 4 x",
        """
        Row 3 (t 3) is in no match.
        It is A in the unfinished match of rows 1-3 (A A A): TIMED OUT at t 31, expected A or B. 1 more unfinished match has the row.
        No match starts here. The run that got farthest took row 3: A.
          It ended because no later row goes on (row 4). The pattern lets come next:
            A  refused by 1 row, here row 4 (t 4):
              e = 'a'  'x' = 'a'  false
            B  refused by 1 row, here row 4 (t 4):
              e = 'b'  'x' = 'b'  false
          If "e = 'b'" were true at row 4, rows 3-4 would match: A B.
          SHOW UNFINISHED MATCHES returns this run: TIMED OUT at t 33, expected A or B.
        As a later row: the run of rows 1-3 (A A A) took it as A.
          It ended because no later row goes on (row 4). The pattern lets come next:
            A  refused by 1 row, here row 4 (t 4):
              e = 'a'  'x' = 'a'  false
            B  refused by 1 row, here row 4 (t 4):
              e = 'b'  'x' = 'b'  false
          If "e = 'b'" were true at row 4, rows 1-4 would match: A A A B.
        """, "t = 3",
    ),
]  # fmt: skip
