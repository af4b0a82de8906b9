-- Overlapping ranges merged: a running maximum in DEFINE.
CREATE OR REPLACE TEMP VIEW stays AS SELECT * FROM VALUES
  (1, 5), (3, 4), (4, 9), (10, 12), (11, 15), (20, 21) AS t(lo, hi);

SELECT * FROM stays MATCH_RECOGNIZE (
  ORDER BY lo, hi
  MEASURES FIRST(lo) AS lo, max(hi) AS hi, count(*) AS ranges
  PATTERN (A* B)
  DEFINE A AS max(A.hi) >= NEXT(lo)
) ORDER BY lo
