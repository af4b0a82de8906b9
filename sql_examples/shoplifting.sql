-- SASE+ Query 1: items taken off a shelf that leave the shop within 12 hours without having been at a register.
CREATE OR REPLACE TEMP VIEW readings AS SELECT * FROM VALUES
  ('shirt', TIMESTAMP '2026-03-02 09:05:00', 'shelf'), ('shirt', TIMESTAMP '2026-03-02 09:40:00', 'register'),
  ('shirt', TIMESTAMP '2026-03-02 09:42:00', 'exit'),
  ('razor', TIMESTAMP '2026-03-02 10:01:00', 'shelf'), ('razor', TIMESTAMP '2026-03-02 10:03:00', 'shelf'),
  ('razor', TIMESTAMP '2026-03-02 10:20:00', 'exit'),
  ('perfume', TIMESTAMP '2026-03-02 08:00:00', 'register'), ('perfume', TIMESTAMP '2026-03-02 11:00:00', 'shelf'),
  ('perfume', TIMESTAMP '2026-03-02 11:30:00', 'exit'),
  ('lamp', TIMESTAMP '2026-03-02 08:00:00', 'shelf'), ('lamp', TIMESTAMP '2026-03-02 21:00:00', 'exit')
  AS t(tag, ts, place);

SELECT * FROM readings MATCH_RECOGNIZE (
  PARTITION BY tag ORDER BY ts
  MEASURES TAKEN.ts AS taken_at, LEFT.ts AS left_at
  EVENT SELECTION SKIP TILL NEXT MATCH
  PATTERN (TAKEN ~PAID LEFT)
  WINDOW INTERVAL '12' HOURS
  DEFINE TAKEN AS place = 'shelf', PAID AS place = 'register', LEFT AS place = 'exit'
) ORDER BY tag
