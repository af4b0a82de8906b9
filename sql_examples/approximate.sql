-- ACEP Examples 2 and 3: a (b|c) d b with at most two rows missing, within five units of time. For each row that completes
-- a match the best one: the fewest errors, then the latest start, then the earliest rows.
CREATE OR REPLACE TEMP VIEW letters AS
SELECT stream, position + 1 AS ts, letter FROM VALUES
  ('example 2', 'a e e b c e a e e c d a e b d'), ('example 3', 'c d a e b')
  AS t(stream, letters) LATERAL VIEW posexplode(split(letters, ' ')) AS position, letter;

SELECT * FROM letters MATCH_RECOGNIZE (
  PARTITION BY stream ORDER BY ts
  MEASURES LAST(ts) AS match_point, MATCH_ERRORS() AS errors, MISSING() AS missing, array_agg(concat(letter, ts)) AS found
  PATTERN (A (B | C) D B)
  WINDOW 5
  APPROX 2 PROXY MATCHES
  DEFINE A AS letter = 'a', B AS letter = 'b', C AS letter = 'c', D AS letter = 'd'
) ORDER BY stream, match_point
