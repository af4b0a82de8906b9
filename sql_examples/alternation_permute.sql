-- PERMUTE: a, b and c in any order.
CREATE OR REPLACE TEMP VIEW steps AS SELECT * FROM VALUES
  (1, 'a'), (2, 'b'), (3, 'a'), (4, 'a'), (5, 'c'), (6, 'b'), (7, 'a'), (8, 'c') AS t(id, kind);

SELECT * FROM steps MATCH_RECOGNIZE (
  ORDER BY id
  MEASURES FIRST(id) AS from_id, array_join(array_agg(CLASSIFIER()), ' ') AS found
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (PERMUTE(A, B, C))
  DEFINE A AS kind = 'a', B AS kind = 'b', C AS kind = 'c'
) ORDER BY from_id
