{#- Fails with one row for each match of the pattern: the partition's columns, the first and the last value of each column in
    order_by, and how many rows the match has. -#}
{% test matches_no_pattern(model, pattern, order_by, define={}, partition_by=[], options=none) %}
{%- set measures = ['count(*) AS match_rows'] -%}
{%- for item in ([order_by] if order_by is string else order_by) -%}
  {%- set column = item.split()[0] | replace('`', '') -%}
  {%- do measures.append('FIRST(' ~ item.split()[0] ~ ') AS `first_' ~ column ~ '`') -%}
  {%- do measures.append('LAST(' ~ item.split()[0] ~ ') AS `last_' ~ column ~ '`') -%}
{%- endfor -%}
SELECT *
FROM (SELECT * FROM {{ model }}) MATCH_RECOGNIZE (
{{- sparkcep.clause(pattern, define, partition_by, order_by, measures, options) }}
)
WHERE match_rows > 0
{% endtest %}
