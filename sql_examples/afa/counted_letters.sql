-- Languages that no row pattern without counts has (appendix B): as many b as a with one counter, and as many c as well with a second one.
WITH letters AS (SELECT id AS t, substring('aabbccaabbabc', CAST(id AS INT), 1) AS k FROM range(1, 14))
SELECT 'a^i b^i' AS language, from_t, to_t, i FROM letters MATCH_RECOGNIZE (
  ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, i AS i
  AUTOMATON (
    REGISTER n INT, a INT
    ARC FROM q0 TO q1 WHEN k = 'a' SET n = 1, a = 1
    ARC FROM q1 TO q1 WHEN k = 'a' SET n = n + 1, a = a + 1
    ARC FROM q1 TO q2 WHEN k = 'b' AND n > 1 SET n = n - 1
    ARC FROM q2 TO q2 WHEN k = 'b' AND n > 1 SET n = n - 1
    ARC FROM q1 TO q3 WHEN k = 'b' AND n = 1 EMIT (a AS i)
    ARC FROM q2 TO q3 WHEN k = 'b' AND n = 1 EMIT (a AS i)
  )
  WINDOW 10
)
UNION ALL
SELECT 'a^i b^i c^i', from_t, to_t, i FROM letters MATCH_RECOGNIZE (
  ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, i AS i
  AUTOMATON (
    REGISTER b INT = 0, c INT = 0, a INT = 0
    ARC FROM q0 TO as_ WHEN k = 'a' SET a = 1, b = 1, c = 1
    ARC FROM as_ TO as_ WHEN k = 'a' SET a = a + 1, b = b + 1, c = c + 1
    ARC FROM as_ TO bs WHEN k = 'b' SET b = b - 1
    ARC FROM bs TO bs WHEN k = 'b' AND b > 0 SET b = b - 1
    ARC FROM bs TO cs WHEN k = 'c' AND b = 0 AND c > 1 SET c = c - 1
    ARC FROM cs TO cs WHEN k = 'c' AND c > 1 SET c = c - 1
    ARC FROM bs TO done WHEN k = 'c' AND b = 0 AND c = 1 EMIT (a AS i)
    ARC FROM cs TO done WHEN k = 'c' AND c = 1 EMIT (a AS i)
  )
  WINDOW 10
) ORDER BY language, to_t, from_t
