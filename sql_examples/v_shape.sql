-- A V: the price falls for one or more days and then rises for one or more.
CREATE OR REPLACE TEMP VIEW ticks AS SELECT * FROM VALUES
  ('ACME', 1, 12), ('ACME', 2, 17), ('ACME', 3, 14), ('ACME', 4, 11), ('ACME', 5, 15), ('ACME', 6, 20), ('ACME', 7, 16),
  ('ACME', 8, 19), ('OMEGA', 1, 9), ('OMEGA', 2, 8), ('OMEGA', 3, 7), ('OMEGA', 4, 9), ('OMEGA', 5, 9)
  AS t(symbol, day, price);

SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES STRT.day AS start_day, LAST(DOWN.day) AS bottom_day, LAST(UP.day) AS end_day, LAST(UP.price) - LAST(DOWN.price) AS gain
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
) ORDER BY symbol, start_day
