{#- Fails with one row for each partition in which the pattern has no match (of at least one row): its columns of partition_by.
    Without partition_by: with one row if there is no match at all. -#}
{% test matches_pattern(model, pattern, order_by, define={}, partition_by=[], options=none) %}
{%- set keys = sparkcep.listed(partition_by) if partition_by else "'no match' AS found" -%}
{%- if partition_by %}
SELECT {{ keys }} FROM {{ model }}
{%- else %}
SELECT {{ keys }}
{%- endif %}
EXCEPT
SELECT {{ keys }}
FROM (SELECT * FROM {{ model }}) MATCH_RECOGNIZE (
{{- sparkcep.clause(pattern, define, partition_by, order_by, ['count(*) AS match_rows'], options) }}
)
WHERE match_rows > 0
{% endtest %}
