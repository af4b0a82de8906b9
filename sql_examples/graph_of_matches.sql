-- All ways of three rising prices, kept as one graph for each last row: counted and sampled without being listed.
CREATE OR REPLACE TEMP VIEW daily AS SELECT * FROM VALUES
  ('ACME', 1, 10), ('ACME', 2, 12), ('ACME', 3, 11), ('ACME', 4, 15), ('ACME', 5, 14), ('ACME', 6, 20),
  ('OMEGA', 1, 7), ('OMEGA', 2, 5), ('OMEGA', 3, 6), ('OMEGA', 4, 9)
  AS t(symbol, day, price);

SELECT symbol, last_day, count_matches(g) AS ways, size(g) AS nodes,
  transform(expand_matches(g, 2), m -> concat_ws('-', transform(m, r -> CAST(r.position + 1 AS STRING)))) AS two_of_them
FROM daily MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES LAST(day) AS last_day, MATCH_GRAPH() AS g
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (A B C)
  DEFINE B AS price > A.price, C AS price > B.price
) ORDER BY symbol, last_day
