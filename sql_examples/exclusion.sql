-- {- -}: rows that must be there but are not reported.
CREATE OR REPLACE TEMP VIEW steps AS SELECT * FROM VALUES
  (1, 'a'), (2, 'b'), (3, 'a'), (4, 'a'), (5, 'c'), (6, 'b'), (7, 'a'), (8, 'c') AS t(id, kind);

SELECT id, kind, variable FROM steps MATCH_RECOGNIZE (
  ORDER BY id
  MEASURES CLASSIFIER() AS variable
  ALL ROWS PER MATCH
  PATTERN (A {- X* -} C)
  DEFINE A AS kind = 'a', X AS kind <> 'c', C AS kind = 'c'
) ORDER BY id
