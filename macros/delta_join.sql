{#-
  Call inside a model, instead of config(materialized='delta_join', deltajoin={...}):

    {{ deltajoin.delta_join(keys={'flights': ['time_hour', 'carrier', 'flight']}, mode='auto') }}

  Options that are not given are not set; other names are passed on and refused when the model runs.
-#}
{% macro delta_join(keys=none, mode=none) %}
  {%- set options = {} -%}
  {%- if keys is not none -%}{%- do options.update({'keys': keys}) -%}{%- endif -%}
  {%- if mode is not none -%}{%- do options.update({'mode': mode}) -%}{%- endif -%}
  {%- do options.update(kwargs) -%}
  {{- config(materialized='delta_join', deltajoin=options) -}}
{% endmacro %}
