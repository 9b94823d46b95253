{#- Make the raw Delta folders known to the catalog. Runs before the models; repeating it changes nothing. -#}
{% macro register_raw() %}
  {%- if execute and flags.WHICH in ('run', 'build', 'test') -%}
    {%- set raw = var('raw', env_var('JAFFLE_RAW', '')) -%}
    {%- if not raw -%}
      {%- do exceptions.raise_compiler_error(
            "Where are the raw tables? Give --vars '{raw: /path/to/raw}' or set JAFFLE_RAW.") -%}
    {%- endif -%}
    {%- do run_query('create schema if not exists jaffle_raw') -%}
    {%- for table in ['customers', 'stores', 'products', 'supplies', 'orders', 'items', 'payments'] -%}
      {%- do run_query("create table if not exists jaffle_raw.raw_" ~ table
            ~ " using delta location '" ~ raw ~ "/raw_" ~ table ~ "'") -%}
    {%- endfor -%}
  {%- endif -%}
{% endmacro %}
