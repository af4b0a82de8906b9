-- title: Cold snaps: the temperature drops by 15 degrees Fahrenheit or more within a steady fall
-- plot: time_hour temp
-- Every hour at least as cold as the one before; the aggregate over the match so far ends the search.
SELECT origin, began, ended, hours, from_f, to_f
FROM hourly MATCH_RECOGNIZE (
  PARTITION BY origin ORDER BY time_hour
  MEASURES
    FIRST(time_hour) AS began,
    LAST(time_hour) AS ended,
    count(*) AS hours,
    round(FIRST(temp), 1) AS from_f,
    round(LAST(temp), 1) AS to_f
  ONE ROW PER MATCH
  PATTERN (WARM COLDER+ SNAP)
  DEFINE
    COLDER AS temp <= PREV(temp),
    SNAP AS temp <= PREV(temp) AND max(WARM.temp) - temp >= 15
)
ORDER BY to_f - from_f, origin, began
