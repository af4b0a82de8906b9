-- ACEP Q5: a vehicle that may charge the grid: it has drawn much power and then parked, or parked until no power was drawn, at one of three places.
-- The equivalence test on the vehicle is a condition of every variable, so EXPLAIN names id as a partition key.
SELECT * FROM vehicles MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (LOADING PARKED{5,} (DOWNTOWN | DEPOT | AIRPORT) | PARKED{5,} FULL_UP (DOWNTOWN | DEPOT | AIRPORT))
  WINDOW 300
  APPROX 2
  DEFINE LOADING AS power > 2.5 AND id = FIRST(id), PARKED AS parked AND id = FIRST(id), FULL_UP AS power = 0 AND id = FIRST(id),
    DOWNTOWN AS place = 'downtown' AND id = FIRST(id), DEPOT AS place = 'depot' AND id = FIRST(id),
    AIRPORT AS place = 'airport' AND id = FIRST(id)
)
