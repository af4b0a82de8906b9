SELECT *
FROM (SELECT visitor, sum(clicks) AS found FROM {{ ref('sessions') }} GROUP BY visitor)
FULL JOIN (SELECT visitor, count(*) AS there FROM {{ ref('stg_clicks') }} GROUP BY visitor) USING (visitor)
WHERE found IS DISTINCT FROM there
