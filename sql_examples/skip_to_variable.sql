-- AFTER MATCH SKIP TO LAST UP: the top of one V is the start of the next.
CREATE OR REPLACE TEMP VIEW ticks AS SELECT * FROM VALUES
  ('ACME', 1, 12), ('ACME', 2, 17), ('ACME', 3, 14), ('ACME', 4, 11), ('ACME', 5, 15), ('ACME', 6, 20), ('ACME', 7, 16),
  ('ACME', 8, 19), ('OMEGA', 1, 9), ('OMEGA', 2, 8), ('OMEGA', 3, 7), ('OMEGA', 4, 9), ('OMEGA', 5, 9)
  AS t(symbol, day, price);

SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES FIRST(day) AS from_day, LAST(day) AS to_day
  AFTER MATCH SKIP TO LAST UP
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
) ORDER BY symbol, from_day
