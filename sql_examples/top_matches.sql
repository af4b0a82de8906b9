-- The best few matches: a purchase and a later sale of each share, the three that would have earned most. TOP ranks all matches, OVERALL those
-- of all shares together; the day of the purchase decides between equal ones.
CREATE OR REPLACE TEMP VIEW offers AS
SELECT * FROM VALUES
  ('ACME', 1, 12.50), ('ACME', 2, 17.00), ('ACME', 3, 14.00), ('ACME', 4, 11.00), ('ACME', 5, 15.00), ('ACME', 6, 20.00), ('ACME', 7, 16.00),
  ('OMEGA', 1, 9.00), ('OMEGA', 2, 8.00), ('OMEGA', 3, 7.00), ('OMEGA', 4, 16.50), ('OMEGA', 5, 9.50)
  AS t(symbol, day, price);

SELECT * FROM offers MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES MATCH_RANK() AS rank, BUY.day AS buy, SELL.day AS sell, MATCH_SCORE() AS earned
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (BUY SELL)
  PREF MAX (SELL.price - BUY.price)
  TOP 4 OVERALL
) ORDER BY rank
