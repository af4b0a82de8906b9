-- Network monitoring (section 4): all rules are one automaton, and rules are rows. A rule leads from the first packet over states of its own to alarm; the second one comes while
-- packets are read, and the first one goes.
CREATE OR REPLACE TEMP VIEW packets AS SELECT * FROM VALUES
  (1, 'h1', 1, 'syn', 22, 40), (2, 'h1', 2, 'syn', 23, 40), (3, 'h1', 3, 'syn', 24, 40), (5, 'h2', 4, 'data', 53, 900), (6, 'h2', 5, 'data', 53, 950), (7, 'h1', 6, 'syn', 25, 40), (8, 'h1', 7, 'syn', 26, 40),
  (9, 'h1', 8, 'syn', 27, 40) AS packets(came, host, t, kind, port, size), (VALUES ('insert')) AS o(op);

CREATE OR REPLACE TEMP VIEW rules AS SELECT * FROM VALUES
  (0, 'insert', 'scan', 'idle', 'scan1', NULL, 'kind = ''syn''', 'port_seen = port'), (0, 'insert', 'scan', 'scan1', 'scan2', NULL, 'kind = ''syn'' AND port = port_seen + 1', 'port_seen = port'),
  (0, 'insert', 'scan', 'scan2', 'alarm', true, 'kind = ''syn'' AND port = port_seen + 1', NULL),
  (4, 'insert', 'tunnel', 'idle', 'tunnel1', NULL, 'kind = ''data'' AND port = 53', 'bytes = size'), (4, 'insert', 'tunnel', 'tunnel1', 'alarm', true, 'port = 53 AND bytes + size > 1500', NULL),
  (4, 'delete', 'scan', 'idle', 'scan1', NULL, 'kind = ''syn''', 'port_seen = port')
  AS rules(came, op, arc, from_state, to_state, final, `when`, `set`);

SELECT * FROM packets MATCH_RECOGNIZE (
  PARTITION BY host ORDER BY t
  MEASURES FIRST(t) AS from_t, LAST(t) AS to_t, CLASSIFIER() AS rule
  AUTOMATON (
    REGISTER port_seen INT, bytes INT = 0
    STATE idle START
    ARCS FROM rules ARRIVAL BY came
  )
  WINDOW 60
  CHANGES IN op ARRIVAL BY came
) ORDER BY host, to_t
