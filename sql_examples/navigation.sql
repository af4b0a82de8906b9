-- PREV and NEXT leave the match, FIRST and LAST take an offset, and they nest.
CREATE OR REPLACE TEMP VIEW ticks AS SELECT * FROM VALUES
  ('ACME', 1, 12), ('ACME', 2, 17), ('ACME', 3, 14), ('ACME', 4, 11), ('ACME', 5, 15), ('ACME', 6, 20), ('ACME', 7, 16),
  ('ACME', 8, 19), ('OMEGA', 1, 9), ('OMEGA', 2, 8), ('OMEGA', 3, 7), ('OMEGA', 4, 9), ('OMEGA', 5, 9)
  AS t(symbol, day, price);

SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES PREV(FIRST(day)) AS day_before, NEXT(LAST(day)) AS day_after, LAST(DOWN.price, 1) AS last_but_one,
    coalesce(PREV(LAST(UP.price), 2), 0) AS two_before
  PATTERN (DOWN DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > FIRST(DOWN.price) OR price > PREV(price)
) ORDER BY symbol
