-- depends_on: {{ ref('clicks') }}
-- (the source is this project's own seed; what another program loads needs no such line)
SELECT visitor, clicked_at, action
FROM {{ source('raw', 'clicks') }}
WHERE clicked_at < TIMESTAMP '{{ var('until') }}'
