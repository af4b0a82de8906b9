-- title: Storms rolling in: pressure falls for hours while the wind rises
-- plot: time_hour pressure
-- Pressure falls hour by hour, by five hectopascal or more, and the wind at the end is well above the wind at the start.
SELECT origin, began, ended, hours, fall_hpa, wind_before, wind_after
FROM hourly MATCH_RECOGNIZE (
  PARTITION BY origin ORDER BY time_hour
  MEASURES
    CALM.time_hour AS began,
    LAST(FALL.time_hour) AS ended,
    count(FALL.*) AS hours,
    round(CALM.pressure - LAST(FALL.pressure), 1) AS fall_hpa,
    round(CALM.wind_speed, 1) AS wind_before,
    round(STORM.wind_speed, 1) AS wind_after
  ONE ROW PER MATCH
  PATTERN (CALM FALL{4,} STORM)
  DEFINE
    CALM AS wind_speed < 15,
    FALL AS pressure < PREV(pressure),
    STORM AS wind_speed >= CALM.wind_speed + 8 AND CALM.pressure - pressure >= 5
)
ORDER BY fall_hpa DESC, origin, began
