-- ACEP Q2: bearish chart patterns of Apple, three tweets of three kinds.
SELECT * FROM tweets MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (S AAPL (DOUBLE_T | TRIPLE_T) E S AAPL (RISING | SHOULDER_T) E S AAPL (BUMP | DESCENDING) E)
  WINDOW 100
  APPROX 2
  DEFINE S AS letter = 'S', AAPL AS letter = 'a', E AS letter = 'E',
    DOUBLE_T AS letter = 't1', TRIPLE_T AS letter = 't2', RISING AS letter = 'R', SHOULDER_T AS letter = 'H', BUMP AS letter = 'B',
    DESCENDING AS letter = 'D'
)
