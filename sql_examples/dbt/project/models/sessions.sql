{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by='day') }}

-- A session is a visitor's clicks with no pause of more than half an hour, and belongs to the day on which it began.
-- It may run on past midnight, and past the last click that was loaded; it is taken to be shorter than a day. So an incremental
-- run writes the last day and the one before anew, and reads one day more, to see from its start what runs on into them.
SELECT visitor, began_at, ended_at, clicks, actions, CAST(began_at AS DATE) AS day
FROM (
  SELECT * FROM {{ ref('stg_clicks') }}
  {% if is_incremental() -%}
  WHERE clicked_at >= (SELECT coalesce(date_sub(max(day), 2), DATE '1900-01-01') FROM {{ this }})
  {%- endif %}
) MATCH_RECOGNIZE (
  PARTITION BY visitor ORDER BY clicked_at
  MEASURES
    FIRST(clicked_at) AS began_at,
    LAST(clicked_at) AS ended_at,
    count(*) AS clicks,
    array_agg(action) AS actions
  PATTERN (A MORE*)
  DEFINE MORE AS clicked_at <= PREV(clicked_at) + INTERVAL 30 MINUTES
)
{% if is_incremental() -%}
WHERE CAST(began_at AS DATE) >= (SELECT coalesce(date_sub(max(day), 1), DATE '1900-01-01') FROM {{ this }})
{%- endif %}
