{{ config(materialized='table') }}

-- the views between a search and what was then put into the cart are part of the match, but not of the result
SELECT visitor, clicked_at, action, sale
FROM {{ ref('stg_clicks') }} MATCH_RECOGNIZE (
  PARTITION BY visitor ORDER BY clicked_at
  MEASURES MATCH_NUMBER() AS sale
  ALL ROWS PER MATCH
  PATTERN (SEARCH {- VIEW{1,3} -} CART SALE)
  DEFINE SEARCH AS action = 'search', VIEW AS action = 'view', CART AS action = 'add', SALE AS action = 'buy'
)
