SELECT *
FROM {{ ref('ticks') }} MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY day
  MEASURES STRT.day AS start_day, LAST(DOWN.day) AS bottom_day, LAST(UP.day) AS end_day, LAST(UP.price) - LAST(DOWN.price) AS gain
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)
)
