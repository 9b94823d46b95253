{#- Configs of dbt-spark's tables that a delta_join table has no use for are named, not dropped in silence. -#}
{% macro warn_ignored_configs() %}
  {%- for name in ['buckets', 'options', 'unique_key', 'incremental_strategy'] -%}
    {%- if config.get(name) -%}
      {%- do exceptions.warn("delta_join ignores the config '" ~ name ~ "' of " ~ model.unique_id ~ ".") -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if config.get('file_format', 'delta') not in ('delta', none) -%}
    {%- do exceptions.raise_compiler_error(
          "UNSUPPORTED_FORMAT: delta_join writes Delta tables, and file_format is '"
          ~ config.get('file_format') ~ "' (at " ~ model.unique_id ~ "). Remove it.") -%}
  {%- endif -%}
{% endmacro %}
