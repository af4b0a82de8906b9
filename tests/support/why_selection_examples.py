"""Worked examples of sparkcep.why under event selections: SKIP TILL NEXT MATCH (N), SKIP TILL ANY MATCH (Y),
ALL MATCHES (L), negation (G) and conjunction (C).
"""

from __future__ import annotations

from tests.support.why_examples import Example

SELECTIONS = [
    Example(
        "N1", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c' AND v > 5",
        "t e v", "1 a 1; 2 x 2; 3 b 3; 4 c 4; 5 x 9; 6 c 2",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took rows 1 and 3: A B.
          It ended because no later row goes on (rows 4-6). The pattern lets come next:
            C  refused by 3 rows, closest row 4 (t 4):
              e = 'c'  'c' = 'c'  true
              v > 5    4 > 5      false
          If "v > 5" were true at row 4, rows 1 and 3-4 would match: A B C.
        """, "t = 1",
    ),
    Example(
        "N2", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c' AND v > 5",
        "t e v", "1 a 1; 2 x 2; 3 b 3; 4 c 4; 5 x 9; 6 c 2",
        """
        Row 4 (t 4) is in no match.
        No match starts here: no variable that may come first takes the row.
          The pattern lets come first:
            A  e = 'a'  'c' = 'a'  false
          No single comparison at row 4 would make a match.
        As a later row: the run of rows 1 and 3 (A B) does not take it:
          C  e = 'c'  'c' = 'c'  true
             v > 5    4 > 5      false
        """, "t = 4",
    ),
    Example(
        "N3", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'",
        "t e v", "1 a 1; 2 x 2; 3 b 3; 4 c 4",
        """
        Row 2 (t 2) is in no match.
        Match 1 takes rows 1 and 3-4 (A B C) and passes over the row.
          SKIP TILL NEXT MATCH passes over a row that no variable takes that may come next:
            B  e = 'b'  'x' = 'b'  false
        """, "t = 2",
    ),
    Example(
        "N4", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B+ C) DEFINE A AS e = 'a', B AS v > 2, C AS e = 'c'",
        "t e v", "1 a 1; 2 x 2; 3 b 3; 4 c 1; 5 b 4; 6 c 2; 7 c 1",
        """
        Match 1 takes rows 1 and 3-4: A B C.
          row 1  A  no other choice
          row 2  -  passed over:
                      B  v > 2  2 > 2  false
          row 3  B  no other choice
          row 4  C  B comes first, refused:
                      v > 2  1 > 2  false
          end       nothing may follow
        """, None, {'match': 1},
    ),
    Example(
        "N5", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'",
        "t e", "1 a; 2 a; 3 b; 4 b",
        """
        Row 2 (t 2) is in no match.
        Match 1 takes rows 1 and 3 (A B) and passes over the row.
          SKIP TILL NEXT MATCH passes over a row that no variable takes that may come next:
            B  e = 'b'  'a' = 'b'  false
        Lost to match 1: rows 2-3 would match (A B), but match 1 passes over row 2 (t 2), and AFTER MATCH SKIP PAST LAST ROW goes on at row 4. AFTER MATCH SKIP TO NEXT ROW reports both.
        """, "t = 2",
    ),
    Example(
        "N6", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c' AND v > 5",
        "t e v", "1 a 1; 2 x 2; 3 b 3; 4 c 4; 5 x 9; 6 c 2",
        """
        No match in 6 rows of 1 partition.
        Conditions, over all rows:
                      true  false  NULL
          A  e = 'a'     1      5     0
          B  e = 'b'     1      5     0
          C  e = 'c'     2      4     0
             v > 5       1      5     0
        How far the runs of 6 start rows got:
          A           1  ###
          B           1  ###
          C           0
          a match     0
        They ended because a condition was false (6).
        Culprit: "v > 5" of C alone stops 1 start row; were it always true, there would be 1 match.
        Then: "e = 'a'" of A alone stops 5 start rows; were it always true, there would be 0 matches.
        """,
    ),
    Example(
        "N7", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A B) DEFINE A AS v > 0, B AS v > 4",
        "t v", "1 1; 2 0; 3 6; 4 5",
        """
        Row 3 (t 3) is not A.
        As a start row A may come first:
          v > 0  6 > 0  true
        Lost to match 1: rows 3-4 would match (A B), but match 1 has row 3 (t 3), and AFTER MATCH SKIP PAST LAST ROW goes on at row 4. AFTER MATCH SKIP TO NEXT ROW reports both.
        """, "t = 3", {'expect': 'A'},
    ),
    Example(
        "Y1", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH WINDOW 10 PATTERN (A B C) DEFINE A AS e = 'a', B AS v > A.v, C AS v > B.v AND e = 'c'",
        "t e v", "1 a 5; 2 x 7; 3 b 6; 4 c 6; 5 c 7; 20 c 9",
        """
        Row 1 (t 1) is in match 1 as A.
        Match 1 takes rows 1, 3 and 5: A B C.
          row 1  A  no other choice
          row 2  -  passed over:
                      B  takes the row, but leads to no match
          row 3  B  no other choice
          row 4  -  passed over:
                      C  v > B.v  6 > 6      false
                         e = 'c'  'c' = 'c'  true
          row 5  C  no other choice
          end       nothing may follow
        """, "t = 1",
    ),
    Example(
        "Y2", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH FIRST MATCH PATTERN (A B C) DEFINE A AS e = 'a', B AS v > A.v, C AS v > B.v AND e = 'c'",
        "t e v", "1 a 5; 2 x 7; 3 b 6; 4 c 6; 5 c 7; 20 c 9",
        """
        Match 1 takes rows 1-2 and 6: A B C.
          row 1  A  no other choice
          row 2  B  no other choice
          row 3  -  passed over:
                      C  v > B.v  6 > 7      false
                         e = 'c'  'b' = 'c'  false
          row 4  -  passed over:
                      C  v > B.v  6 > 7      false
                         e = 'c'  'c' = 'c'  true
          row 5  -  passed over:
                      C  v > B.v  7 > 7      false
                         e = 'c'  'c' = 'c'  true
          row 6  C  no other choice
          end       nothing may follow
        """, None, {'match': 1},
    ),
    Example(
        "L1", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'",
        "t e", "1 a; 2 a; 3 b; 4 x; 5 b",
        """
        Row 3 (t 3) is in match 1 as B and match 3 as B.
        """, "t = 3",
    ),
    Example(
        "L2", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'",
        "t e", "1 a; 2 a; 3 b; 4 x; 5 b",
        """
        Match 2 takes rows 1 and 5: A B.
          row 1  A  e = 'a'  'a' = 'a'  true
          row 5  B  e = 'b'  'b' = 'b'  true
          ALL MATCHES reports every match, so none is preferred to it.
        """, None, {'match': 2},
    ),
    Example(
        "L3", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'",
        "t e", "1 a; 2 a; 3 b; 4 x; 5 b",
        """
        Row 4 (t 4) is in no match.
        Match 2 takes rows 1 and 5 (A B) and passes over the row. 1 more match around the row does not take it.
        No match starts here: no variable that may come first takes the row.
          The pattern lets come first:
            A  e = 'a'  'x' = 'a'  false
          If "e = 'a'" were true at row 4, rows 4-5 would match: A B.
        """, "t = 4",
    ),
    Example(
        "L4", "ORDER BY t AFTER MATCH SKIP PAST LAST ROW EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'",
        "t e", "1 a; 2 a; 3 b; 4 x; 5 b",
        """
        Row 2 (t 2) is in no match.
        Match 1 takes rows 1 and 3 (A B) and passes over the row.
        Lost to match 1: rows 2-3 would match (A B), but match 1 is complete first (rows 1 and 3), and AFTER MATCH SKIP PAST LAST ROW goes on at row 4. AFTER MATCH SKIP TO NEXT ROW reports both.
        """, "t = 2",
    ),
    Example(
        "L5", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A (B | C D)) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS e = 'd'",
        "t e", "1 a; 2 b; 3 c; 4 d",
        """
        Row 4 (t 4) is D.
        The run of rows 1 and 3 (A C) lets D come here:
          e = 'd'  'd' = 'd'  true
        """, "t = 4", {'expect': 'D'},
    ),
    Example(
        "L6", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A (B | C D)) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS e = 'd'",
        "t e", "1 a; 2 b; 3 c; 4 x",
        """
        Row 3 (t 3) is not C.
        The run of row 1 (A) lets C come here:
          e = 'c'  'c' = 'c'  true
          C takes the row, but no match goes on from there.
        """, "t = 3", {'expect': 'C'},
    ),
    Example(
        "L7", "ORDER BY t AFTER MATCH SKIP PAST LAST ROW EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES PATTERN (A B) DEFINE A AS e = 'a', B AS e = 'b'",
        "t e", "1 a; 2 b; 3 b",
        """
        Row 3 (t 3) is not B.
        The run of row 1 (A) lets B come here:
          e = 'b'  'b' = 'b'  true
        Lost to match 1: rows 1 and 3 would match (A B), but match 1 is complete first (rows 1-2), and AFTER MATCH SKIP PAST LAST ROW goes on at row 3. AFTER MATCH SKIP TO NEXT ROW reports both.
        """, "t = 3", {'expect': 'B'},
    ),
    Example(
        "L8", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A (B | C)) DEFINE A AS e = 'a', B AS e = 'b', C AS v > A.v",
        "t e v", "1 a 1; 2 b 0; 3 c 5",
        """
        2 matches in 3 rows of 1 partition.
        Conditions, over all rows:
                      true  false  NULL
          A  e = 'a'     1      2     0
          B  e = 'b'     1      2     0
          C  v > A.v     1      1     0  looks at the match: counted where it was asked
        How far the runs of 3 start rows got:
          A           1  #######
          B           1  #######
          C           1  #######
          a match     1  #######
        They ended because a condition was false (2).
        Culprit: "e = 'a'" of A alone stops 2 start rows; were it always true, there would be 3 matches.
        """,
    ),
    Example(
        "G1", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'",
        "t e", "1 a; 2 x; 3 b; 4 c",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took row 1: A.
          C would take row 4 (t 4), but ~B looks at rows 2-3 and forbids row 3:
            B  e = 'b'  'b' = 'b'  true
          It ended because no later row goes on (rows 2-4). The pattern lets come next:
            C  refused by 2 rows, closest row 2 (t 2):
              e = 'c'  'x' = 'c'  false
          If "e = 'c'" were true at row 2, rows 1-2 would match: A C.
        """, "t = 1",
    ),
    Example(
        "G2", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~B C) DEFINE A AS e = 'a', B AS e = 'b' AND v > A.v AND v < C.v, C AS e = 'c'",
        "t e v", "1 a 1; 2 b 0; 3 b 3; 4 c 5",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took rows 1 and 4: A C.
          Rows 1 and 4 would match, but ~B looks at rows 2-3 and forbids row 3:
            B  e = 'b'  'b' = 'b'  true
               v > A.v  3 > 1      true
               v < C.v  3 < 5      true
        """, "t = 1",
    ),
    Example(
        "G3", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A C ~B) WINDOW 5 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'",
        "t e", "1 a; 2 c; 4 b; 9 c",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took rows 1-2: A C.
          Rows 1-2 would match, but ~B looks at row 3 and forbids row 3:
            B  e = 'b'  'b' = 'b'  true
        """, "t = 1",
    ),
    Example(
        "G4", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~(B D) C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS v > B.v",
        "t e v", "1 a 1; 2 b 0; 3 d 3; 4 c 5",
        """
        Row 1 (t 1) is in no match.
        No match starts here. The run that got farthest took rows 1 and 4: A C.
          Rows 1 and 4 would match, but ~(B D) looks at rows 2-3 and forbids rows 2-3:
            B  e = 'b'  'b' = 'b'  true
            D  v > B.v  3 > 0  true
        """, "t = 1",
    ),
    Example(
        "G5", "ORDER BY t EVENT SELECTION SKIP TILL NEXT MATCH PATTERN (A ~B C) DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'",
        "t e", "1 a; 2 x; 3 c; 4 c",
        """
        Match 1 takes rows 1 and 3: A C.
          row 1  A  no other choice
          row 2  -  passed over:
                      C  e = 'c'  'x' = 'c'  false
          row 3  C  no other choice
          end       nothing may follow
        """, None, {'match': 1},
    ),
    Example(
        "C1", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B & C) WINDOW 5 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'",
        "t e", "1 a; 2 b; 3 x; 9 c",
        """
        Row 1 (t 1) is in no match.
        No match starts here. Each side of & by itself, in rows 1-3:
          side of A and B: rows 1-2 would match (A B).
          side of C: no match.
            No match starts here: no variable that may come first takes the row.
              The pattern lets come first:
                C  e = 'c'  'a' = 'c'  false
              If "e = 'c'" were true at row 1, row 1 would match: C.
        """, "t = 1",
    ),
    Example(
        "C2", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B & C) WINDOW 9 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c' AND v > A.v",
        "t e v", "1 a 5; 2 c 3; 3 b 4; 4 c 4",
        """
        Row 1 (t 1) is in no match.
        No match starts here. Each side of & by itself, in rows 1-4:
          side of A and B: rows 1 and 3 would match (A B).
          side of C: row 2 would match (C).
        Rows 1 and 3 (A B) with row 2 (C) fit all sides by their rows, but conditions across & are not true:
          C at row 2  e = 'c'  'c' = 'c'  true
                      v > A.v  3 > 5      false
        """, "t = 1",
    ),
    Example(
        "C4", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B & C) WINDOW 9 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c' AND v > A.v",
        "t e v", "1 a 5; 2 c 8; 3 b 4; 4 c 4",
        """
        Match 1 takes rows 1-3: A C B.
          row 1  A
          row 2  C
          row 3  B
        """, None, {'match': 1},
    ),
    Example(
        "C5", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A (B & C)) WINDOW 9 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'",
        "t e v", "1 a 5; 2 c 8; 3 x 4; 4 c 4",
        """
        Row 1 (t 1) is in no match.
        No match starts here. Each side of & with the rest of PATTERN, in rows 1-4:
          side of B: no match.
            No match starts here. The run that got farthest took row 1: A.
              It ended because no later row goes on (rows 2-4). The pattern lets come next:
                B  refused by 3 rows, closest row 2 (t 2):
                  e = 'b'  'c' = 'b'  false
              If "e = 'b'" were true at row 2, rows 1-2 would match: A B.
          side of C: rows 1-2 would match (A C).
        """, "t = 1",
    ),
    Example(
        "C7", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A (B & C) D) WINDOW 9 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c' AND v > B.v, D AS e = 'd' AND v > B.v + C.v",
        "t e v", "1 a 5; 2 c 3; 3 b 4; 4 d 8",
        """
        Row 1 (t 1) is in no match.
        No match starts here. Each side of & with the rest of PATTERN, in rows 1-4:
          side of B: rows 1 and 3-4 would match (A B D).
          side of C: rows 1-2 and 4 would match (A C D).
        Rows 1 and 3-4 (A B D) with rows 1-2 and 4 (A C D) fit all sides by their rows, but conditions across & are not true:
          C at row 2  e = 'c'  'c' = 'c'  true
                      v > B.v  3 > 4      false
        """, "t = 1",
    ),
    Example(
        "C8", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A (B & C)+ D) WINDOW 9 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c', D AS e = 'd' AND count(*) > 4",
        "t e", "1 a; 2 c; 3 b; 4 d",
        """
        Row 1 (t 1) is in no match.
        No match starts here. Each side of & with the rest of PATTERN, in rows 1-4:
          side of B: rows 1 and 3-4 would match (A B D).
          side of C: rows 1-2 and 4 would match (A C D).
        Together the sides do not match from here on.
        """, "t = 1",
    ),
    Example(
        "C6", "ORDER BY t EVENT SELECTION SKIP TILL ANY MATCH PATTERN (A B & C) WINDOW 5 DEFINE A AS e = 'a', B AS e = 'b', C AS e = 'c'",
        "t e", "1 a; 2 b; 3 x; 9 c",
        """
        No match in 4 rows of 1 partition.
        Conditions, over all rows:
                      true  false  NULL
          A  e = 'a'     1      3     0
          B  e = 'b'     1      3     0
          C  e = 'c'     1      3     0
        Each side of & by itself:
          side of A and B: a match starts at 1 of 4 rows
          side of C: a match starts at 1 of 4 rows
        Hint: without WINDOW 5 there would be 1 match.
        """,
    ),
]  # fmt: skip
