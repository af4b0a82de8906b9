-- depends_on: {{ ref('clicks') }}
SELECT *
FROM match_recognize(TABLE({{ source('raw', 'clicks') }}), '
  PARTITION BY visitor
  ORDER BY clicked_at
  MEASURES FIRST(CART.clicked_at) AS filled_at, LAST(SALE.clicked_at) AS bought_at
  PATTERN (CART SALE)
  DEFINE CART AS action = \'add\', SALE AS action = \'buy\'
')
