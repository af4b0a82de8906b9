-- title: Aircraft that fall behind and catch up again within the day
-- plot: dep_time dep_delay
-- One or more legs leave an hour late or more, and a later leg of the same day leaves on time again.
SELECT tailnum, day, worst_delay, recovered_at, legs_late, legs
FROM departures MATCH_RECOGNIZE (
  PARTITION BY tailnum, day ORDER BY dep_time
  MEASURES
    max(LATE.dep_delay) AS worst_delay,
    BACK.dep_time AS recovered_at,
    count(LATE.*) AS legs_late,
    count(*) AS legs
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO LAST BACK
  PATTERN (ONTIME LATE+ BETTER* BACK)
  DEFINE
    ONTIME AS dep_delay <= 15,
    LATE AS dep_delay >= 60,
    BETTER AS dep_delay BETWEEN 16 AND 59 AND dep_delay < PREV(dep_delay),
    BACK AS dep_delay <= 15
)
ORDER BY worst_delay DESC, tailnum, day
