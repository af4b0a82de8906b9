-- ACEP Q1: a time to buy Apple's stock. Two tweets or more (from S, the start, to E, the end) with a bullish chart pattern, then two or more with good news.
SELECT * FROM tweets MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (
    (S AAPL (BULLISH | DOUBLE_B | WEDGE | ROUNDING | SHOULDER | TRIANGLE | CUP) E){2,}
    (S AAPL (GUIDANCE | EARNINGS | UPGRADE) E){2,})
  WINDOW 100
  APPROX 2
  DEFINE S AS letter = 'S', AAPL AS letter = 'a', E AS letter = 'E',
    BULLISH AS letter = 'b', DOUBLE_B AS letter = 'd', WEDGE AS letter = 'w', ROUNDING AS letter = 'r', SHOULDER AS letter = 'h',
    TRIANGLE AS letter = 't', CUP AS letter = 'c',
    GUIDANCE AS letter = 'g', EARNINGS AS letter = 'e', UPGRADE AS letter = 'u'
)
