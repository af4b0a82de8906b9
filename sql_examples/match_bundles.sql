-- ACEP Definition 3 and Example 4: one row for each bundle, a run of match points with no gap longer than the window, and the
-- best of its matches, with the number of all of them. The first five letters are those of Example 3.
CREATE OR REPLACE TEMP VIEW letters AS SELECT * FROM VALUES
  (1, 'c'), (2, 'd'), (3, 'a'), (4, 'e'), (5, 'b'),
  (21, 'a'), (22, 'c'), (23, 'e'), (24, 'd'), (25, 'b'), (26, 'e'), (30, 'd'),
  (36, 'b'), (37, 'd') AS t(ts, letter);

SELECT * FROM letters MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES MATCH_NUMBER() AS bundle, BUNDLE_START() AS from_ts, BUNDLE_END() AS to_ts, BUNDLE_SIZE() AS match_points,
    MATCH_COUNT() AS trajectories, MATCH_ERRORS() AS errors, MISSING() AS missing, array_agg(concat(letter, ts)) AS best
  PATTERN (A (B | C) D B)
  WINDOW 5
  APPROX 2 MATCH BUNDLES
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
) ORDER BY bundle
