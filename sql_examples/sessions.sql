-- Sessions: events no more than 30 minutes apart.
CREATE OR REPLACE TEMP VIEW clicks AS SELECT * FROM VALUES
  ('u1', TIMESTAMP '2024-05-01 10:00:00'), ('u1', TIMESTAMP '2024-05-01 10:20:00'), ('u1', TIMESTAMP '2024-05-01 11:00:00'),
  ('u2', TIMESTAMP '2024-05-01 09:00:00'), ('u2', TIMESTAMP '2024-05-01 09:29:59'), ('u2', TIMESTAMP '2024-05-01 09:59:00')
  AS t(user, ts);

SELECT * FROM clicks MATCH_RECOGNIZE (
  PARTITION BY user ORDER BY ts
  MEASURES
    MATCH_NUMBER() AS session,
    count(*) AS events,
    date_format(FIRST(ts), 'HH:mm') AS began,
    date_format(LAST(ts), 'HH:mm') AS ended
  PATTERN (A B*)
  DEFINE B AS ts <= PREV(ts) + INTERVAL '30' MINUTE
) ORDER BY user, session
