-- ACEP Q1 where time is short (RC-ACEP): of all partial matches that could take a tweet four are tried, those that led to most matches. A job would keep the history of yesterday as a table.
WITH history AS (
SELECT * FROM tweets MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (
    (S AAPL (BULLISH | DOUBLE_B | WEDGE | ROUNDING | SHOULDER | TRIANGLE | CUP) E){2,}
    (S AAPL (GUIDANCE | EARNINGS | UPGRADE) E){2,})
  WINDOW 100
  APPROX 2 MATCH HISTORY INTERVALS 8
  DEFINE S AS letter = 'S', AAPL AS letter = 'a', E AS letter = 'E',
    BULLISH AS letter = 'b', DOUBLE_B AS letter = 'd', WEDGE AS letter = 'w', ROUNDING AS letter = 'r', SHOULDER AS letter = 'h',
    TRIANGLE AS letter = 't', CUP AS letter = 'c',
    GUIDANCE AS letter = 'g', EARNINGS AS letter = 'e', UPGRADE AS letter = 'u'
)
)
SELECT * FROM tweets MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES
    LAST(ts) AS match_point,
    FIRST(ts) AS since,
    MATCH_ERRORS() AS errors,
    MISSING() AS missing,
    COMPLETE() AS complete,
    CHECKS_LEFT_OUT() AS left_out
  PATTERN (
    (S AAPL (BULLISH | DOUBLE_B | WEDGE | ROUNDING | SHOULDER | TRIANGLE | CUP) E){2,}
    (S AAPL (GUIDANCE | EARNINGS | UPGRADE) E){2,})
  WINDOW 100
  APPROX 2 BUDGET 4 CHECKS USING HISTORY history
  DEFINE S AS letter = 'S', AAPL AS letter = 'a', E AS letter = 'E',
    BULLISH AS letter = 'b', DOUBLE_B AS letter = 'd', WEDGE AS letter = 'w', ROUNDING AS letter = 'r', SHOULDER AS letter = 'h',
    TRIANGLE AS letter = 't', CUP AS letter = 'c',
    GUIDANCE AS letter = 'g', EARNINGS AS letter = 'e', UPGRADE AS letter = 'u'
)
