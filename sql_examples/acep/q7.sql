-- ACEP Q7: a trip begins: one vehicle faster and faster.
SELECT * FROM vehicles MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS match_point, FIRST(ts) AS since, MATCH_ERRORS() AS errors, MISSING() AS missing
  PATTERN (STANDING SLOW MEDIUM_1 MEDIUM_2 FAST)
  WINDOW 300
  APPROX 2
  DEFINE STANDING AS speed = 0 AND id = FIRST(id), SLOW AS speed BETWEEN 2 AND 10 AND id = FIRST(id),
    MEDIUM_1 AS speed BETWEEN 11 AND 20 AND id = FIRST(id), MEDIUM_2 AS speed BETWEEN 21 AND 30 AND id = FIRST(id),
    FAST AS speed > 30 AND id = FIRST(id)
)
