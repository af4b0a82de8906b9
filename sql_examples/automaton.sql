-- An automaton with registers: after a fall of more than 0.5, a number of V patterns (k = 2) of as many rises as falls, within 7 ticks.
-- Register r1 counts falls less rises, r2 the V patterns (Chandramouli, Goldstein, Maier, VLDB 2010, Figure 3).
CREATE OR REPLACE TEMP VIEW changes AS SELECT * FROM VALUES
  (1, -0.90), (2, -0.10), (3, -0.20), (4, 0.10), (5, 0.30), (6, -0.05), (7, 0.20), (8, -0.10)
  AS t(t, change);

SELECT * FROM changes MATCH_RECOGNIZE (
  ORDER BY t
  MEASURES FIRST(t) AS first_t, LAST(t) AS last_t, r2 AS v_patterns, MATCH_FROM() AS lives_from, MATCH_TO() AS lives_to,
    array_join(array_agg(CLASSIFIER()), ' ') AS arcs
  AUTOMATON (
    REGISTER r1 INT = 0, r2 INT = 0
    STATE q0 START, q3 FINAL
    ARC a0 FROM q0 TO q1 WHEN change < -0.5
    ARC a1 FROM q1 TO q1 WHEN change < 0 SET r1 = r1 + 1
    ARC a2 FROM q1 TO q2 WHEN change < 0 SET r1 = r1 + 1
    ARC a3 FROM q2 TO q2 WHEN change > 0 AND r2 < 2 SET r1 = r1 - 1
    ARC a4 FROM q2 TO q1 WHEN change > 0 AND r2 + 1 < 2 SET r1 = r1 - 1, r2 = r2 + 1
    ARC a5 FROM q2 TO q3 WHEN change > 0 AND r2 + 1 = 2 AND r1 = 1 SET r1 = 0, r2 = r2 + 1
  )
  WINDOW 7
)
