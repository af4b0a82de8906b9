-- A pattern that changes while it runs: watches of accounts for a number of failed logins in a row within 10 minutes, which come and go with a table of rules.
-- The rule of 3 is in force from the start; as of 12 it is 2, and account b has one of its own from 20 to 30: any failure.
CREATE OR REPLACE TEMP VIEW logins AS SELECT * FROM VALUES
  ('a', 1, false), ('a', 2, false), ('a', 3, false), ('a', 14, false), ('a', 15, false), ('b', 4, false), ('b', 5, false), ('b', 13, true), ('b', 25, false), ('b', 40, false)
  AS t(account, minute, ok);

CREATE OR REPLACE TEMP VIEW rules AS SELECT * FROM VALUES
  ('alarm', 3, 0, 12, NULL), ('alarm', 2, 12, NULL, NULL), ('alarm', 1, 20, 30, 'b')
  AS t(arc, failures, valid_from, valid_to, account);

SELECT * FROM logins MATCH_RECOGNIZE (
  PARTITION BY account ORDER BY minute
  MEASURES FIRST(minute) AS since, LAST(minute) AS alarm_at, rule AS rule
  AUTOMATON (
    REGISTER n INT = 0
    STATE q0 START, q1 FINAL
    ARC FROM q0 TO q0 WHEN NOT ok SET n = n + 1
    ARC alarm(failures INT) FROM q0 TO q1 WHEN NOT ok AND n + 1 = failures SET n = n + 1 EMIT (failures AS rule)
    ARCS FROM rules
  )
  WINDOW 10
) ORDER BY account, alarm_at, since
