{{ config(materialized='table') }}

SELECT *
FROM match_recognize(TABLE({{ ref('ticks') }}), '
  PARTITION BY symbol
  ORDER BY day
  MEASURES FIRST(UP.day) AS from_day, LAST(UP.day) AS to_day, count(*) AS days
  PATTERN (UP{2,})
  DEFINE UP AS price > PREV(price)
')
