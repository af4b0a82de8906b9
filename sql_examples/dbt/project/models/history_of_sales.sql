{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by='day') }}

-- Which steps led to purchases, by the last day that was loaded. The first run reads all clicks; a later one reads those of the
-- last day, tries what the history of the day before says is promising, fifty partial matches a click, and leaves that day's history.
WITH days AS (SELECT max(CAST(clicked_at AS DATE)) AS last_day FROM {{ ref('stg_clicks') }}),
{% if is_incremental() -%}
known AS (
  SELECT * EXCEPT (day) FROM {{ this }}
  WHERE day = (SELECT max(day) FROM {{ this }} WHERE day < (SELECT last_day FROM days))
),
{%- endif %}
clicks AS (
  SELECT * FROM {{ ref('stg_clicks') }}
  {% if is_incremental() -%}
  WHERE CAST(clicked_at AS DATE) = (SELECT last_day FROM days)
  {%- endif %}
)
SELECT found.*, (SELECT last_day FROM days) AS day
FROM clicks MATCH_RECOGNIZE (
  PARTITION BY visitor
  ORDER BY clicked_at
  PATTERN (SEARCH VIEW CART SALE)
  WINDOW INTERVAL 1 DAY
  APPROX 1 MATCH HISTORY INTERVALS 2 {% if is_incremental() %}BUDGET 50 CHECKS USING HISTORY known{% endif %}
  DEFINE SEARCH AS action = 'search', VIEW AS action = 'view', CART AS action = 'add', SALE AS action = 'buy'
) AS found
