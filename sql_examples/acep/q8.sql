-- ACEP Q8: a busy station: five vehicles, each another one, draw much power at one place. A comparison with a vehicle that is missing counts for nothing.
SELECT * FROM vehicles MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (V1 V2 V3 V4 V5)
  WINDOW 100
  APPROX 2
  DEFINE V1 AS power > 2.5 AND place = FIRST(place),
    V2 AS power > 2.5 AND place = FIRST(place) AND id <> V1.id,
    V3 AS power > 2.5 AND place = FIRST(place) AND id <> V1.id AND id <> V2.id,
    V4 AS power > 2.5 AND place = FIRST(place) AND id <> V1.id AND id <> V2.id AND id <> V3.id,
    V5 AS power > 2.5 AND place = FIRST(place) AND id <> V1.id AND id <> V2.id AND id <> V3.id AND id <> V4.id
)
