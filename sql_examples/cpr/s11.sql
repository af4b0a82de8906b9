-- CPR S11 (Tables 4.1 and 4.3), for joins, length 4: in each 50 epochs, every 20 anew, the 10 best sequences of temperature changes of one mote, by the temperatures they
-- reach.
SELECT * FROM (
  SELECT *, temperature - lag(temperature) OVER (PARTITION BY moteid ORDER BY epoch) AS change, sqrt(x * x + y * y) AS distance
  FROM readings JOIN motes USING (moteid)
) MATCH_RECOGNIZE (
  PARTITION BY moteid ORDER BY epoch
  MEASURES WINDOW_START() AS since, MATCH_RANK() AS rank, MATCH_SCORE() AS score, array_agg(epoch) AS epochs
  EVENT SELECTION SKIP TILL ANY MATCH
  PATTERN (EJ EK EL EM)
  WINDOW 50 SLIDE 20
  PREF MAX (SUM(temperature))
  TOP 10
  DEFINE
    EJ AS change > 0 AND change <= 20,
    EK AS change > 20 AND change <= 40,
    EL AS change > 40 AND change <= 60,
    EM AS change > 60 AND change <= 80
)
