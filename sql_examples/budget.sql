-- RC-ACEP, Example 5 and Algorithm 2: what the morning taught says which partial matches the evening tries first, when it may try one at each row only.
CREATE OR REPLACE TEMP VIEW morning AS SELECT * FROM VALUES
  (1, 'a'), (2, 'b'), (21, 'a'), (22, 'b'), (41, 'b'), (42, 'c'), (43, 'd'), (61, 'b'), (62, 'c'), (63, 'd') AS t(ts, letter);

CREATE OR REPLACE TEMP VIEW evening AS SELECT * FROM VALUES
  (1, 'a'), (4, 'b'), (12, 'c'), (13, 'd'), (31, 'a'), (34, 'b'), (42, 'c'), (43, 'd') AS t(ts, letter);

CREATE OR REPLACE TEMP VIEW taught AS
SELECT * FROM morning MATCH_RECOGNIZE (
  ORDER BY ts
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH HISTORY INTERVALS 2
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
);

SELECT 'as it comes' AS checks, ts, days, errors, string(complete) AS complete FROM evening MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS ts, array_agg(ts) AS days, MATCH_ERRORS() AS errors, COMPLETE() AS complete
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH BUNDLES BUDGET 1 CHECKS
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
)
UNION ALL
SELECT 'as taught', ts, days, errors, string(complete) AS complete FROM evening MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES LAST(ts) AS ts, array_agg(ts) AS days, MATCH_ERRORS() AS errors, COMPLETE() AS complete
  PATTERN (A B C D)
  WINDOW 10
  APPROX 1 MATCH BUNDLES BUDGET 1 CHECKS USING HISTORY taught
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
)
ORDER BY checks, ts
