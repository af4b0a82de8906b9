-- What did not happen: requests that are not answered within 5 seconds (Figure 18 of the AFA paper). The arc ON EXPIRY is taken when the window ends.
CREATE OR REPLACE TEMP VIEW calls AS SELECT * FROM VALUES
  ('u', TIMESTAMP '2024-01-01 00:00:00', 'ask'), ('u', TIMESTAMP '2024-01-01 00:00:03', 'ping'), ('u', TIMESTAMP '2024-01-01 00:00:08', 'ask'),
  ('u', TIMESTAMP '2024-01-01 00:00:10', 'answer'), ('v', TIMESTAMP '2024-01-01 00:00:12', 'ask')
  AS t(caller, at, kind);

SELECT * FROM calls MATCH_RECOGNIZE (
  PARTITION BY caller ORDER BY at
  MEASURES FIRST(at) AS asked_at, MATCH_FROM() AS missed_at, count(*) AS rows
  AUTOMATON (
    STATE idle START, waiting IGNORE WHEN kind <> 'answer', missed FINAL
    ARC FROM idle TO waiting WHEN kind = 'ask'
    ARC FROM waiting TO missed ON EXPIRY
  )
  WINDOW INTERVAL '5' SECOND
) ORDER BY caller, asked_at
