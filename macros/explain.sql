{#-
  What a run of the model would do now: strategy, lookup paths, versions, keys. Nothing is written.

    dbt run-operation deltajoin_explain --args '{model: flights_enriched}'
-#}
{% macro deltajoin_explain(model) %}
  {%- if execute -%}
    {%- set node = deltajoin.find_model(model) -%}
    {%- set relation = api.Relation.create(schema=node.schema, identifier=node.alias) -%}
    {%- do print(adapter.deltajoin_explain(node, relation, graph)) -%}
  {%- endif -%}
{% endmacro %}


{#- The node of a delta_join model by name or unique id. -#}
{% macro find_model(name) %}
  {%- set found = [] -%}
  {%- for node in graph.nodes.values() -%}
    {%- if node.resource_type == 'model' and name in (node.name, node.unique_id) -%}
      {%- do found.append(node) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- if found | length != 1 -%}
    {%- do exceptions.raise_compiler_error(
          "UNKNOWN_MODEL: " ~ (found | length) ~ " models are named '" ~ name ~ "'. "
          ~ "Name one model of this project, or give its unique id.") -%}
  {%- endif -%}
  {{ return(found[0]) }}
{% endmacro %}
