-- Head and shoulders (Figure 14 of the AFA paper): a peak, a higher one and a lower one, with lows between them above where it began, and a fall below that.
-- The registers hold the price at the start, the first peak, the head, and the price before.
CREATE OR REPLACE TEMP VIEW prices AS SELECT * FROM VALUES
  (1, 10), (2, 14), (3, 17), (4, 13), (5, 18), (6, 22), (7, 15), (8, 12), (9, 16), (10, 11), (11, 9), (12, 12)
  AS t(day, price);

SELECT * FROM prices MATCH_RECOGNIZE (
  ORDER BY day
  MEASURES FIRST(day) AS from_day, LAST(day) AS to_day, p1 AS base, p2 AS left_shoulder, p4 AS head, p6 AS right_shoulder
  AUTOMATON (
    REGISTER p1 INT, p2 INT, p4 INT, p6 INT, p INT
    STATE q0 START, q7 FINAL
    ARC FROM q0 TO q1 SET p1 = price, p = price
    ARC FROM q1 TO q1 WHEN price > p SET p = price
    ARC FROM q1 TO q2 WHEN price < p AND price > p1 AND p > p1 SET p2 = p, p = price
    ARC FROM q2 TO q2 WHEN price < p AND price > p1 SET p = price
    ARC FROM q2 TO q3 WHEN price > p SET p = price
    ARC FROM q3 TO q3 WHEN price > p SET p = price
    ARC FROM q3 TO q4 WHEN price < p AND price > p1 AND p > p2 SET p4 = p, p = price
    ARC FROM q4 TO q4 WHEN price < p AND price > p1 SET p = price
    ARC FROM q4 TO q5 WHEN price > p SET p = price
    ARC FROM q5 TO q5 WHEN price > p SET p = price
    ARC FROM q5 TO q6 WHEN price < p AND p < p4 SET p6 = p, p = price
    ARC FROM q6 TO q6 WHEN price < p SET p = price
    ARC FROM q6 TO q7 ON EMPTY WHEN p < p1
  )
  WINDOW 30
)
