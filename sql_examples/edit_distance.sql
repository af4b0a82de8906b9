-- Weighted edit distance: how far each work piece's steps are from cut, drill, paint, pack, and which rows are wrong. A step too many
-- costs a half, a paint that is missing (or another step in its place) one and a half, any other one.
CREATE OR REPLACE TEMP VIEW steps AS
SELECT piece, position + 1 AS n, step FROM VALUES
  ('a', array('cut', 'drill', 'paint', 'pack')), ('b', array('cut', 'check', 'drill', 'check', 'paint', 'pack')),
  ('c', array('cut', 'paint', 'pack')), ('d', array('cut', 'glue', 'paint', 'pack')), ('e', array('cut', 'drill', 'pack')),
  ('f', array('cut', 'pack')), ('g', array('cut', 'paint', 'check', 'pack'))
  AS t(piece, steps) LATERAL VIEW posexplode(steps) AS position, step;

SELECT * FROM steps MATCH_RECOGNIZE (
  PARTITION BY piece ORDER BY n
  MEASURES CLASSIFIER() AS variable, ERROR_KIND() AS kind, MATCH_ERRORS() AS distance, MISSING() AS missing
  ALL ROWS PER MATCH WITH UNMATCHED ROWS
  EVENT SELECTION STRICT CONTIGUITY
  PATTERN (^ CUT DRILL PAINT PACK $)
  APPROX 1.5 WEIGHTS (PAINT 1.5, EXTRA 0.5)
  DEFINE CUT AS step = 'cut', DRILL AS step = 'drill', PAINT AS step = 'paint', PACK AS step = 'pack'
) ORDER BY piece, n
