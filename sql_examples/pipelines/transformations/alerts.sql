-- A table of its own: prices that fell three times within a minute.
CREATE STREAMING TABLE falls AS
SELECT * FROM STREAM ticks WATERMARK ts DELAY OF INTERVAL 5 SECONDS MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(ts) AS since, count(*) AS n, LAST(price) AS price
  PATTERN (A FALL{2,})
  WINDOW INTERVAL '1' MINUTE
  DEFINE FALL AS price < PREV(price)
);

-- A table and its flow, which has two clauses. Of several flows into one table of files Spark keeps the rows of one.
CREATE STREAMING TABLE alerts;

CREATE FLOW warnings AS INSERT INTO alerts BY NAME
SELECT 'jump' AS what, symbol, since FROM STREAM ticks WATERMARK ts DELAY OF INTERVAL 5 SECONDS MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.ts AS since
  PATTERN (A B)
  WINDOW INTERVAL '1' MINUTE
  DEFINE B AS price > A.price * 1.5
)
UNION ALL
SELECT 'silence' AS what, symbol, since FROM STREAM ticks WATERMARK ts DELAY OF INTERVAL 5 SECONDS MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.ts AS since
  EVENT SELECTION SKIP TILL ANY MATCH ALL MATCHES
  PATTERN (A ~B)
  WINDOW INTERVAL '2' MINUTES
);
