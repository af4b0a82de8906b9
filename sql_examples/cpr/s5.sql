-- CPR S5 (Tables 4.1 and 4.3), length 3: in each 50 epochs, every 20 anew, the 10 best sequences of temperature changes,
-- by the distances of their motes from the corner of the lab.
SELECT * FROM (
  SELECT *, temperature - lag(temperature) OVER (PARTITION BY moteid ORDER BY epoch) AS change, sqrt(x * x + y * y) AS distance
  FROM readings JOIN motes USING (moteid)
) MATCH_RECOGNIZE (
  ORDER BY epoch, moteid
  MEASURES
    WINDOW_START() AS since,
    MATCH_RANK() AS rank,
    MATCH_SCORE() AS score,
    array_agg(epoch) AS epochs,
    array_agg(moteid) AS motes
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (EG EH EJ)
  WINDOW 50 SLIDE 20
  PREF MAX (SUM(distance))
  TOP 10
  DEFINE EG AS change >= -40 AND change < -20, EH AS change >= -20 AND change < 0, EJ AS change > 0 AND change <= 20
)
