-- Which parcels were not shipped within two days? The status distinguishes unfinished matches from matches, and the last column names the next step.
CREATE OR REPLACE TEMP VIEW parcels AS SELECT * FROM VALUES
  (1, TIMESTAMP '2024-01-01 08:00:00', 'placed'), (1, TIMESTAMP '2024-01-01 09:00:00', 'packed'), (1, TIMESTAMP '2024-01-02 10:00:00', 'shipped'),
  (2, TIMESTAMP '2024-01-01 12:00:00', 'placed'), (2, TIMESTAMP '2024-01-02 09:00:00', 'packed'),
  (3, TIMESTAMP '2024-01-03 15:00:00', 'placed')
  AS t(parcel, at, event);

SELECT * FROM parcels MATCH_RECOGNIZE (
  PARTITION BY parcel ORDER BY at
  MEASURES
    FIRST(at) AS placed_at,
    MATCH_STATUS() AS status,
    MATCH_ENDED_AT() AS ended_at,
    array_join(MATCH_EXPECTED(), ' ') AS expected
  ONE ROW PER MATCH SHOW UNFINISHED MATCHES
  EVENT SELECTION SKIP TILL NEXT MATCH
  PATTERN (PLACED PACKED SHIPPED)
  WINDOW INTERVAL '2' DAY
  DEFINE PLACED AS event = 'placed', PACKED AS event = 'packed', SHIPPED AS event = 'shipped'
) ORDER BY parcel
