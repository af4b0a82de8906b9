-- SASE+ Query 3: a high volume, then prices above their running average, then the volume falls below 80 % of the last of them.
CREATE OR REPLACE TEMP VIEW trades AS SELECT * FROM VALUES
  ('GOOG', 1, 100, 1010), ('GOOG', 2, 120, 990), ('GOOG', 3, 120, 1005), ('GOOG', 4, 121, 999), ('GOOG', 5, 120, 999),
  ('GOOG', 6, 125, 750), ('GOOG', 7, 120, 950), ('GOOG', 8, 120, 700), ('IBM', 1, 90, 400), ('IBM', 2, 91, 300)
  AS t(symbol, minute, price, volume);

SELECT * FROM trades MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY minute
  MEASURES array_agg(A.minute) AS rising, B.minute AS dropped, B.volume AS volume
  EVENT SELECTION SKIP TILL NEXT MATCH ALL MATCHES
  PATTERN (A+ B)
  WINDOW 60
  DEFINE A AS (count(A.*) > 1 OR volume > 1000) AND price > PRIOR(AVG(A.price)),
    B AS volume < 0.8 * LAST(A.volume)
) ORDER BY symbol, rising, dropped
