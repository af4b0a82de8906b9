-- Head and shoulders (Figure 14). The registers keep the price at which it begins, and the peaks of the left shoulder and of the head: the head is higher than both shoulders, no
-- trough falls below the begin, and it ends where the price does.
SELECT * FROM (
  SELECT *, price - lag(price) OVER (ORDER BY t) AS change
  FROM VALUES (1, 10), (2, 13), (3, 15), (4, 12), (5, 16), (6, 20), (7, 14), (8, 11), (9, 14), (10, 16), (11, 13), (12, 10), (13, 8), (14, 9) AS ticks(t, price)
) MATCH_RECOGNIZE (
  ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, p1 AS neck, p2 AS left_shoulder, p4 AS head, array_agg(price) AS prices
  AUTOMATON (
    REGISTER p1 INT, p2 INT, p4 INT
    STATE q0 START, broken FINAL
    ARC FROM q0 TO left_up SET p1 = price
    ARC FROM left_up TO left_up WHEN change > 0
    ARC FROM left_up TO left_down WHEN change < 0 AND price > p1 AND price - change > p1 SET p2 = price - change
    ARC FROM left_down TO left_down WHEN change < 0 AND price > p1
    ARC FROM left_down TO head_up WHEN change > 0
    ARC FROM head_up TO head_up WHEN change > 0
    ARC FROM head_up TO head_down WHEN change < 0 AND price > p1 AND price - change > p2 SET p4 = price - change
    ARC FROM head_down TO head_down WHEN change < 0 AND price > p1
    ARC FROM head_down TO right_up WHEN change > 0
    ARC FROM right_up TO right_up WHEN change > 0
    ARC FROM right_up TO right_down WHEN change < 0 AND price >= p1 AND price - change < p4
    ARC FROM right_up TO broken WHEN change < 0 AND price < p1 AND price - change < p4
    ARC FROM right_down TO right_down WHEN change < 0 AND price >= p1
    ARC FROM right_down TO broken WHEN change < 0 AND price < p1
  )
  WINDOW 30
) ORDER BY from_t
