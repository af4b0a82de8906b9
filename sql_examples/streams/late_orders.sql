-- An alert for each order that was not shipped within two days, also if no further event of the order ever comes.
CREATE TABLE order_events USING parquet AS SELECT * FROM VALUES
  (1, TIMESTAMP '2026-03-01 08:00:00', 'placed'), (1, TIMESTAMP '2026-03-02 09:00:00', 'shipped'),
  (2, TIMESTAMP '2026-03-01 10:00:00', 'placed'), (2, TIMESTAMP '2026-03-04 12:00:00', 'shipped'),
  (3, TIMESTAMP '2026-03-02 07:00:00', 'placed'),
  (4, TIMESTAMP '2026-03-05 11:00:00', 'placed')
  AS t(id, ts, event);

SELECT id, placed_at, late_since FROM STREAM order_events WATERMARK ts DELAY OF INTERVAL 1 HOUR MATCH_RECOGNIZE (
  PARTITION BY id ORDER BY ts
  MEASURES PLACED.ts AS placed_at, MATCH_ENDED_AT() AS late_since, MATCH_STATUS() AS status
  ONE ROW PER MATCH SHOW TIMEOUT MATCHES
  EVENT SELECTION SKIP TILL NEXT MATCH
  PATTERN (PLACED SHIPPED)
  WINDOW INTERVAL '2' DAY
  DEFINE PLACED AS event = 'placed', SHIPPED AS event = 'shipped'
) WHERE status = 'TIMED OUT'
