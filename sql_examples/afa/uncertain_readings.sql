-- Uncertain readings (section 4): each reading is right with probability p. The register is the probability of what was read; passing a reading over multiplies it by 1 - p, and
-- below 0.1 nobody waits any more.
SELECT * FROM VALUES (1, 'a', 0.9D), (2, 'b', 0.5D), (3, 'b', 0.8D), (4, 'b', 0.9D) AS readings(t, k, p)
MATCH_RECOGNIZE (
  ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, round(pr, 2) AS probability
  AUTOMATON (
    REGISTER pr DOUBLE = 1
    STATE q2 FINAL
    ARC FROM q0 TO q1 WHEN k = 'a' SET pr = pr * p
    ARC FROM q1 TO q1 WHEN pr * (1 - p) >= 0.1 SET pr = pr * (1 - p)
    ARC FROM q1 TO q2 WHEN k = 'b' AND pr * p >= 0.1 SET pr = pr * p
  )
) ORDER BY to_t
