-- An alert for each host that was silent for a minute. Each beat begins a window in which the next one must come.
CREATE TABLE beats USING parquet AS SELECT * FROM VALUES
  ('db1', TIMESTAMP '2026-03-01 08:00:00'), ('db1', TIMESTAMP '2026-03-01 08:00:30'), ('db1', TIMESTAMP '2026-03-01 08:03:10'),
  ('db2', TIMESTAMP '2026-03-01 08:00:00'), ('db2', TIMESTAMP '2026-03-01 08:00:45')
  AS t(host, ts);

SELECT host, last_beat, silent_since FROM STREAM beats WATERMARK ts DELAY OF INTERVAL 10 SECONDS MATCH_RECOGNIZE (
  PARTITION BY host ORDER BY ts
  MEASURES FIRST(ts) AS last_beat, MATCH_ENDED_AT() AS silent_since, MATCH_STATUS() AS status
  ONE ROW PER MATCH SHOW TIMEOUT MATCHES
  AFTER MATCH SKIP TO LAST NEXT_BEAT
  PATTERN (BEAT NEXT_BEAT)
  WINDOW INTERVAL '1' MINUTE
) WHERE status = 'TIMED OUT'
