-- title: Aircraft whose delay builds up over a day, leg by leg
-- plot: dep_time dep_delay
-- An aircraft leaves on time and then later on each leg of the same day, by more than an hour in the end.
SELECT tailnum, day, first_leg, last_leg, legs, first_delay, last_delay, route
FROM departures MATCH_RECOGNIZE (
  PARTITION BY tailnum, day ORDER BY dep_time
  MEASURES
    FIRST(dep_time) AS first_leg,
    LAST(WORSE.dep_time) AS last_leg,
    count(*) AS legs,
    FIRST(dep_delay) AS first_delay,
    LAST(WORSE.dep_delay) AS last_delay,
    concat_ws('-', array_agg(origin)) AS route
  ONE ROW PER MATCH
  PATTERN (ONTIME WORSE{2,})
  DEFINE
    ONTIME AS dep_delay <= 15,
    WORSE AS dep_delay > PREV(dep_delay) + 10
)
WHERE last_delay > 60
ORDER BY last_delay - first_delay DESC, tailnum, day
