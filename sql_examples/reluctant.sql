-- A reluctant quantifier takes as few rows as it can.
CREATE OR REPLACE TEMP VIEW steps AS SELECT * FROM VALUES
  (1, 'a'), (2, 'b'), (3, 'a'), (4, 'a'), (5, 'c'), (6, 'b'), (7, 'a'), (8, 'c') AS t(id, kind);

SELECT * FROM steps MATCH_RECOGNIZE (
  ORDER BY id
  MEASURES FIRST(id) AS from_id, LAST(id) AS to_id
  PATTERN (A X*? C)
  DEFINE A AS kind = 'a', C AS kind = 'c'
) ORDER BY from_id
