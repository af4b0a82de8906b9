-- Q2: V patterns after a fall of 3 or more, until the price is back where it was. The register was keeps the price before the fall, v counts: how many V patterns it takes is data.
SELECT * FROM VALUES
  ('x', 1, 20, 0), ('x', 2, 16, -4), ('x', 3, 15, -1), ('x', 4, 17, 2), ('x', 5, 16, -1), ('x', 6, 19, 3), ('x', 7, 18, -1), ('x', 8, 20, 2), ('x', 9, 22, 2),
  ('y', 1, 20, 0), ('y', 2, 15, -5), ('y', 3, 21, 6) AS ticks(symbol, t, price, change)
MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, was AS was, v_patterns AS v_patterns
  AUTOMATON (
    REGISTER was INT, v INT = 0
    STATE q0 START
    ARC fall FROM q0 TO down WHEN change <= -3 SET was = price - change
    ARC FROM down TO down WHEN change < 0
    ARC FROM down TO up WHEN change > 0 AND price < was SET v = v + 1
    ARC FROM up TO up WHEN change > 0 AND price < was
    ARC FROM up TO down WHEN change < 0
    ARC back FROM down TO q3 WHEN change > 0 AND price >= was SET v = v + 1 EMIT (v AS v_patterns)
    ARC back2 FROM up TO q3 WHEN change > 0 AND price >= was EMIT (v AS v_patterns)
  )
  WINDOW 100
) ORDER BY symbol, to_t
