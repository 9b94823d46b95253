{#-
  `--empty`: dbt has limited every input to no rows. A target that is there stays as it is, as with an incremental
  model; else an empty table is made, marked so that the next real run replaces it.
-#}
{% macro build_empty(relation, existing, sql) %}
  {%- if existing is none -%}
    {%- call statement('empty_target') -%}
      create table {{ relation }} using delta
      tblproperties ('deltajoin.empty' = 'true') as
      {{ sql }}
    {%- endcall -%}
  {%- else -%}
    {%- call statement('empty_check') -%}{{ sql }}{%- endcall -%}
  {%- endif -%}
  {{ return(adapter.deltajoin_response('OK empty')) }}
{% endmacro %}
