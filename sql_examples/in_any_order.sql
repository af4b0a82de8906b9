-- A conjunction: a purchase abroad and a change of the PIN, in whichever order, and then a withdrawal, all within half an hour.
CREATE OR REPLACE TEMP VIEW card_events AS SELECT * FROM VALUES
  ('c1', TIMESTAMP '2026-03-02 09:00:00', 'purchase', 'FR', 80), ('c1', TIMESTAMP '2026-03-02 09:04:00', 'pin', 'DE', NULL),
  ('c1', TIMESTAMP '2026-03-02 09:10:00', 'withdrawal', 'FR', 900),
  ('c2', TIMESTAMP '2026-03-02 10:00:00', 'pin', 'DE', NULL), ('c2', TIMESTAMP '2026-03-02 10:12:00', 'purchase', 'IT', 15),
  ('c2', TIMESTAMP '2026-03-02 10:20:00', 'withdrawal', 'DE', 40), ('c2', TIMESTAMP '2026-03-02 10:55:00', 'withdrawal', 'IT', 500),
  ('c3', TIMESTAMP '2026-03-02 11:00:00', 'pin', 'DE', NULL), ('c3', TIMESTAMP '2026-03-02 11:05:00', 'withdrawal', 'DE', 200),
  ('c3', TIMESTAMP '2026-03-02 11:08:00', 'purchase', 'FR', 10)
  AS t(card, ts, kind, country, amount);

SELECT * FROM card_events MATCH_RECOGNIZE (
  PARTITION BY card ORDER BY ts
  MEASURES ABROAD.country AS country, date_format(PIN.ts, 'HH:mm') AS pin_at, CASH.amount AS amount, count(*) AS events
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN ((ABROAD & PIN) CASH)
  WINDOW INTERVAL '30' MINUTES
  DEFINE ABROAD AS kind = 'purchase' AND country <> 'DE', PIN AS kind = 'pin', CASH AS kind = 'withdrawal'
) ORDER BY card
