-- A pattern changed while it runs (section 2.3, Example 4): the number k of V patterns is a parameter of three arcs, and rows of ARCS FROM give it. Before the third tick 1 becomes 2: the
-- computation that has begun goes on with what it has counted, and needs two Vs. REPORT CHANGES tells at which tick.
CREATE OR REPLACE TEMP VIEW ticks AS SELECT * FROM VALUES
  (1, -0.90), (2, -0.10), (3, -0.20), (4, 0.10), (5, 0.30), (6, -0.05), (7, 0.20), (8, -0.10) AS ticks(t, change), (VALUES ('insert')) AS o(op);

CREATE OR REPLACE TEMP VIEW active AS SELECT came, op, arc, k FROM VALUES (0, 'insert', 1), (3, 'delete', 1), (3, 'insert', 2) AS changes(came, op, k), (VALUES ('a3'), ('a4'), ('a5')) AS arcs(arc);

SELECT * FROM ticks MATCH_RECOGNIZE (
  ORDER BY t
  MEASURES CHANGED_BY() AS told_at, CHANGE() AS change, FIRST(t) AS from_t, LAST(t) AS to_t, r2 AS v_patterns
  AUTOMATON (
    REGISTER r1 INT = 0, r2 INT = 0
    STATE q0 START, q3 FINAL
    ARC a0 FROM q0 TO q1 WHEN change < -0.5
    ARC a1 FROM q1 TO q1 WHEN change < 0 SET r1 = r1 + 1
    ARC a2 FROM q1 TO q2 WHEN change < 0 SET r1 = r1 + 1
    ARC a3(k INT) FROM q2 TO q2 WHEN change > 0 AND r2 < k SET r1 = r1 - 1
    ARC a4(k INT) FROM q2 TO q1 WHEN change > 0 AND r2 + 1 < k SET r1 = r1 - 1, r2 = r2 + 1
    ARC a5(k INT) FROM q2 TO q3 WHEN change > 0 AND r2 + 1 = k AND r1 = 1 SET r1 = 0, r2 = r2 + 1
    ARCS FROM active ARRIVAL BY came
  )
  WINDOW 7
  CHANGES IN op ARRIVAL BY t
  REPORT CHANGES
)
