-- An empty match takes a match number and is reported with NULL columns; count is 0.
CREATE OR REPLACE TEMP VIEW steps AS SELECT * FROM VALUES
  (1, 'a'), (2, 'b'), (3, 'a'), (4, 'a'), (5, 'c'), (6, 'b'), (7, 'a'), (8, 'c') AS t(id, kind);

SELECT * FROM steps MATCH_RECOGNIZE (
  ORDER BY id
  MEASURES MATCH_NUMBER() AS match, FIRST(id) AS from_id, count(*) AS n
  PATTERN (A*)
  DEFINE A AS kind = 'a'
) ORDER BY match
