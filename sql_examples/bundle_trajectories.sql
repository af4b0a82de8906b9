-- ACEP, end of section 3.1: bundles first, which is cheap; then, on demand, every match of a bundle from the rows around it alone.
CREATE OR REPLACE TEMP VIEW letters AS SELECT * FROM VALUES
  (1, 'c'), (2, 'd'), (3, 'a'), (4, 'e'), (5, 'b'),
  (21, 'a'), (22, 'c'), (23, 'e'), (24, 'd'), (25, 'b'), (26, 'e'), (30, 'd'),
  (36, 'b'), (37, 'd') AS t(ts, letter);

WITH bundles AS (
  SELECT * FROM letters MATCH_RECOGNIZE (
    ORDER BY ts
    MEASURES MATCH_NUMBER() AS bundle, BUNDLE_START() AS from_ts, BUNDLE_END() AS to_ts
    PATTERN (A (B | C) D B)
    WINDOW 5
    APPROX 2 MATCH BUNDLES
    DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
  )
), around AS (
  SELECT bundle, from_ts, to_ts, ts, letter FROM bundles JOIN letters ON ts BETWEEN from_ts - 5 AND to_ts WHERE bundle < 3
)
SELECT bundle, match_point, errors, missing, found FROM around MATCH_RECOGNIZE (
  PARTITION BY bundle, from_ts, to_ts ORDER BY ts
  MEASURES LAST(ts) AS match_point, MATCH_ERRORS() AS errors, MISSING() AS missing, array_agg(concat(letter, ts)) AS found
  PATTERN (A (B | C) D B)
  WINDOW 5
  APPROX 2 ALL MATCHES
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
)
WHERE match_point BETWEEN from_ts AND to_ts
ORDER BY bundle, match_point, found
