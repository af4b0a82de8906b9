-- Q3: eight arcs in a line, each an up or a down, and no register: here four peaks.
SELECT * FROM (SELECT id AS t, element_at(array(1, -1, 1, -1, 1, -1, 1, -1, -1, 1), CAST(id AS INT)) AS change FROM range(1, 11))
MATCH_RECOGNIZE (
  ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, array_join(array_agg(CLASSIFIER()), ' ') AS arcs
  AUTOMATON (
    STATE q0 START, q8 FINAL
    ARC u0 FROM q0 TO q1 WHEN change > 0
    ARC d1 FROM q1 TO q2 WHEN change < 0
    ARC u2 FROM q2 TO q3 WHEN change > 0
    ARC d3 FROM q3 TO q4 WHEN change < 0
    ARC u4 FROM q4 TO q5 WHEN change > 0
    ARC d5 FROM q5 TO q6 WHEN change < 0
    ARC u6 FROM q6 TO q7 WHEN change > 0
    ARC d7 FROM q7 TO q8 WHEN change < 0
  )
  WINDOW 500
)
