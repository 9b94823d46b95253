{#-
  Call inside a model, instead of config(materialized='delta_join', deltajoin={...}):

    {{ deltajoin.delta_join(keys={'flights': ['time_hour', 'carrier', 'flight']}, mode='auto') }}

  Options that are not given are not set; other names are passed on and refused when the model runs.
-#}
{% macro delta_join(keys=none, mode=none, references=none, hints=none, strategy=none, reorder=none, order=none, sketches=none, functions=none, stamps=none) %}
  {%- set given = {'keys': keys, 'mode': mode, 'references': references, 'hints': hints,
                   'strategy': strategy, 'reorder': reorder, 'order': order, 'sketches': sketches,
                   'functions': functions, 'stamps': stamps} -%}
  {%- set options = {} -%}
  {%- for name, value in given.items() if value is not none -%}
    {%- do options.update({name: value}) -%}
  {%- endfor -%}
  {%- do options.update(kwargs) -%}
  {{- config(materialized='delta_join', deltajoin=options) -}}
{% endmacro %}
