-- Cleaning (section 4): a known sequence of which one step is missing; what comes out is the event that fills it in, half way between its neighbours.
SELECT * FROM VALUES
  ('m1', 1, 'load'), ('m1', 4, 'press'), ('m1', 6, 'cool'), ('m1', 9, 'unload'), ('m2', 2, 'load'), ('m2', 5, 'press'), ('m2', 11, 'unload'),
  ('m3', 1, 'load'), ('m3', 5, 'cool'), ('m3', 8, 'unload') AS log(machine, t, step)
MATCH_RECOGNIZE (
  PARTITION BY machine ORDER BY t
  MEASURES FIRST(t) AS from_t, step AS missing, at AS at
  AUTOMATON (
    REGISTER before INT
    ARC FROM q0 TO loaded WHEN step = 'load' SET before = t
    ARC FROM loaded TO pressed WHEN step = 'press' SET before = t
    ARC FROM loaded TO filled WHEN step = 'cool' EMIT ('press' AS step, (before + t) DIV 2 AS at)
    ARC FROM pressed TO filled WHEN step = 'unload' EMIT ('cool' AS step, (before + t) DIV 2 AS at)
  )
  WINDOW 60
) ORDER BY machine
