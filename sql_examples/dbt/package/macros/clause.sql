{#- The parts of a clause from the arguments of a test: PARTITION BY, ORDER BY, measures, PATTERN, DEFINE; options stand before PATTERN. -#}
{% macro clause(pattern, define, partition_by, order_by, measures, options) -%}
{%- if define is not mapping -%}
  {{ exceptions.raise_compiler_error("define must map variables to conditions, as in {UP: price > PREV(price)}; it is: " ~ define) }}
{%- endif -%}
{%- if partition_by %}
  PARTITION BY {{ sparkcep.listed(partition_by) }}
{%- endif %}
  ORDER BY {{ sparkcep.listed(order_by) }}
  MEASURES {{ measures | join(', ') }}
{%- if options %}
  {{ options }}
{%- endif %}
  PATTERN ({{ pattern }})
{%- if define %}
  DEFINE
  {%- for variable, condition in define.items() %}
    {{ variable }} AS {{ condition }}{{ ',' if not loop.last }}
  {%- endfor %}
{%- endif %}
{%- endmacro %}

{#- One name or expression, or a list of them, as SQL. -#}
{% macro listed(items) -%}
{{ items if items is string else items | join(', ') }}
{%- endmacro %}
