-- Of approximate matches the best: in each work piece's steps the one that comes nearest to cut, drill, mill, paint. With APPROX and no PREF the
-- fewest errors rank best, then the shortest time; MATCH_SCORE() is the number of errors with its sign changed.
CREATE OR REPLACE TEMP VIEW steps_done AS
SELECT piece, position + 1 AS step, name FROM VALUES
  ('P1', 'cut drill mill paint'), ('P2', 'cut cut drill wait paint'), ('P3', 'drill wait cut mill drill paint'), ('P4', 'wait paint')
  AS t(piece, names) LATERAL VIEW posexplode(split(names, ' ')) AS position, name;

SELECT * FROM steps_done MATCH_RECOGNIZE (
  PARTITION BY piece ORDER BY step
  MEASURES MATCH_SCORE() AS score, MISSING() AS missing, array_agg(concat(name, step)) AS found
  PATTERN (CUT DRILL MILL PAINT)
  APPROX 2
  TOP 1
  DEFINE CUT AS name = 'cut', DRILL AS name = 'drill', MILL AS name = 'mill', PAINT AS name = 'paint'
) ORDER BY piece
