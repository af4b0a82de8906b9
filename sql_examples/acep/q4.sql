-- ACEP Q4: a bullish pattern of one company and a bearish one of the other, either way round.
SELECT * FROM tweets MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (
    S AAPL (BULLISH | DOUBLE_B | WEDGE | ROUNDING | SHOULDER | TRIANGLE | CUP) E
    S GOOGL (DOUBLE_T | TRIPLE_T | RISING | SHOULDER_T | BUMP | DESCENDING) E
    | S GOOGL (BULLISH | DOUBLE_B | WEDGE | ROUNDING | SHOULDER | TRIANGLE | CUP) E
    S AAPL (DOUBLE_T | TRIPLE_T | RISING | SHOULDER_T | BUMP | DESCENDING) E)
  WINDOW 100
  APPROX 2
  DEFINE S AS letter = 'S', AAPL AS letter = 'a', GOOGL AS letter = 'G', E AS letter = 'E',
    BULLISH AS letter = 'b', DOUBLE_B AS letter = 'd', WEDGE AS letter = 'w', ROUNDING AS letter = 'r', SHOULDER AS letter = 'h',
    TRIANGLE AS letter = 't', CUP AS letter = 'c',
    DOUBLE_T AS letter = 't1', TRIPLE_T AS letter = 't2', RISING AS letter = 'R', SHOULDER_T AS letter = 'H', BUMP AS letter = 'B',
    DESCENDING AS letter = 'D'
)
