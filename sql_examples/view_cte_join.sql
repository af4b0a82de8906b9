-- The clause in a view, over a CTE, and joined to another table.
CREATE OR REPLACE TEMP VIEW ticks AS SELECT * FROM VALUES
  ('ACME', 1, 12), ('ACME', 2, 17), ('ACME', 3, 14), ('ACME', 4, 11), ('ACME', 5, 15), ('ACME', 6, 20), ('ACME', 7, 16),
  ('ACME', 8, 19), ('OMEGA', 1, 9), ('OMEGA', 2, 8), ('OMEGA', 3, 7), ('OMEGA', 4, 9), ('OMEGA', 5, 9)
  AS t(symbol, day, price);

CREATE OR REPLACE TEMP VIEW rises AS
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES FIRST(day) AS from_day, LAST(day) AS to_day
  PATTERN (UP{2,})
  DEFINE UP AS price > PREV(price)
);

WITH names AS (SELECT 'ACME' AS symbol, 'Acme Corporation' AS name)
SELECT n.name, r.from_day, m.falls
FROM rises r JOIN names n ON n.symbol = r.symbol
JOIN (SELECT * FROM ticks WHERE symbol = 'ACME') MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES count(*) AS falls
  PATTERN (DOWN+)
  DEFINE DOWN AS price < PREV(price)
) AS m ON m.symbol = r.symbol
ORDER BY r.from_day, m.falls
