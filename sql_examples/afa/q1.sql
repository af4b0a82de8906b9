-- Q1 of the paper (Figure 3): after a fall of more than 0.25, k = 2 V patterns in which as many rises as falls stand, within 7 ticks. Register r1 counts falls less rises, r2
-- the V patterns. Of x the ticks are those of the paper's Example 3; of y the last rise is missing.
SELECT * FROM VALUES
  ('x', 1, -0.90), ('x', 2, -0.10), ('x', 3, -0.20), ('x', 4, 0.10), ('x', 5, 0.30), ('x', 6, -0.05), ('x', 7, 0.20), ('x', 8, -0.10),
  ('y', 1, -0.90), ('y', 2, -0.10), ('y', 3, -0.20), ('y', 4, 0.10), ('y', 5, 0.30), ('y', 6, -0.05), ('y', 7, -0.20) AS ticks(symbol, t, change)
MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, r2 AS v_patterns, array_join(array_agg(CLASSIFIER()), ' ') AS arcs
  AUTOMATON (
    REGISTER r1 INT = 0, r2 INT = 0
    STATE q0 START, q3 FINAL
    ARC a0 FROM q0 TO q1 WHEN change < -0.25
    ARC a1 FROM q1 TO q1 WHEN change < 0 SET r1 = r1 + 1
    ARC a2 FROM q1 TO q2 WHEN change < 0 SET r1 = r1 + 1
    ARC a3 FROM q2 TO q2 WHEN change > 0 AND r2 < 2 SET r1 = r1 - 1
    ARC a4 FROM q2 TO q1 WHEN change > 0 AND r2 + 1 < 2 SET r1 = r1 - 1, r2 = r2 + 1
    ARC a5 FROM q2 TO q3 WHEN change > 0 AND r2 + 1 = 2 AND r1 = 1 SET r1 = 0, r2 = r2 + 1
  )
  WINDOW 7
) ORDER BY symbol, to_t
