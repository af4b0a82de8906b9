-- ACEP Q6: a traffic jam: standing and slow in turn, five times or more. The equivalence test on the vehicle as PARTITION BY.
SELECT * FROM vehicles MATCH_RECOGNIZE (
  PARTITION BY id ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN ((STANDING SLOW){5,})
  WINDOW 300
  APPROX 2
  DEFINE STANDING AS speed = 0, SLOW AS speed BETWEEN 2 AND 10
)
