{#- Make the raw Delta folders known to the catalog. Runs before the models; repeating it changes nothing. -#}
{% macro register_raw() %}
  {%- if execute and flags.WHICH in ('run', 'build', 'test', 'snapshot') -%}
    {%- set raw = var('raw', env_var('FLIGHTS_RAW', '')) -%}
    {%- if not raw -%}
      {%- do exceptions.raise_compiler_error(
            "Where are the raw tables? Give --vars '{raw: /path/to/raw}' or set FLIGHTS_RAW.") -%}
    {%- endif -%}
    {%- do run_query('create schema if not exists ' ~ source('raw', 'flights').schema) -%}
    {%- for table in ['flights', 'weather', 'planes', 'airlines', 'airports'] -%}
      {%- do run_query("create table if not exists " ~ source('raw', table)
            ~ " using delta location '" ~ raw ~ "/" ~ table ~ "'") -%}
    {%- endfor -%}
  {%- endif -%}
{% endmacro %}
