-- ACEP Q5 where time is short (RC-ACEP): of all partial matches that could take an event of a vehicle four are tried. A job would keep the history of yesterday as a table.
WITH history AS (
SELECT * FROM vehicles MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (LOADING PARKED{5,} (DOWNTOWN | DEPOT | AIRPORT) | PARKED{5,} FULL_UP (DOWNTOWN | DEPOT | AIRPORT))
  WINDOW 300
  APPROX 2 MATCH HISTORY INTERVALS 8
  DEFINE LOADING AS power > 2.5 AND id = FIRST(id), PARKED AS parked AND id = FIRST(id), FULL_UP AS power = 0 AND id = FIRST(id),
    DOWNTOWN AS place = 'downtown' AND id = FIRST(id), DEPOT AS place = 'depot' AND id = FIRST(id),
    AIRPORT AS place = 'airport' AND id = FIRST(id)
)
)
SELECT * FROM vehicles MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES
    LAST(ts) AS match_point,
    FIRST(ts) AS since,
    MATCH_ERRORS() AS errors,
    MISSING() AS missing,
    COMPLETE() AS complete,
    CHECKS_LEFT_OUT() AS left_out
  PATTERN (LOADING PARKED{5,} (DOWNTOWN | DEPOT | AIRPORT) | PARKED{5,} FULL_UP (DOWNTOWN | DEPOT | AIRPORT))
  WINDOW 300
  APPROX 2 BUDGET 4 CHECKS USING HISTORY history
  DEFINE LOADING AS power > 2.5 AND id = FIRST(id), PARKED AS parked AND id = FIRST(id), FULL_UP AS power = 0 AND id = FIRST(id),
    DOWNTOWN AS place = 'downtown' AND id = FIRST(id), DEPOT AS place = 'depot' AND id = FIRST(id),
    AIRPORT AS place = 'airport' AND id = FIRST(id)
)
