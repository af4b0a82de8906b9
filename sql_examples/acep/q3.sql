-- ACEP Q3: good news of Google: solid guidance, good earnings, an upgrade.
SELECT * FROM tweets MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (S GOOGL GUIDANCE E S GOOGL EARNINGS E S GOOGL UPGRADE E)
  WINDOW 100
  APPROX 2
  DEFINE S AS letter = 'S', GOOGL AS letter = 'G', E AS letter = 'E',
    GUIDANCE AS letter = 'g', EARNINGS AS letter = 'e', UPGRADE AS letter = 'u'
)
