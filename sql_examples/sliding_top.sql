-- Sliding windows: in each ten minutes, every five minutes anew, the heaviest run from a low to a high of a pump. Windows are those of Spark's
-- window(at, '10 minutes', '5 minutes'); a run belongs to each window that holds all its rows.
CREATE OR REPLACE TEMP VIEW pressures AS
SELECT pump, timestamp_ntz'2026-03-02 10:00:00' + make_dt_interval(0, 0, minute) AS at, bar FROM VALUES
  ('P1', 1, 2), ('P1', 3, 7), ('P1', 6, 1), ('P1', 8, 9), ('P1', 12, 4), ('P1', 14, 8),
  ('P2', 2, 5), ('P2', 4, 6), ('P2', 13, 3), ('P2', 14, 9)
  AS t(pump, minute, bar);

SELECT * FROM pressures MATCH_RECOGNIZE (
  PARTITION BY pump ORDER BY at
  MEASURES WINDOW_START() AS since, WINDOW_END() AS until, MATCH_SCORE() AS rise, LOW.at AS low_at, HIGH.at AS high_at
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (LOW HIGH)
  WINDOW INTERVAL '10' MINUTES SLIDE INTERVAL '5' MINUTES
  PREF MAX (HIGH.bar - LOW.bar)
  TOP 1
  DEFINE LOW AS bar < 6, HIGH AS bar > 5
) ORDER BY pump, since
