{#-
  `dbt seed` keeps the Delta table of a seed whose columns are the same, and exchanges its rows. dbt-spark drops it
  and creates another one: nothing is left then to compare with, and what reads it is rebuilt. For it, the project
  lets dbt look here first:

    dispatch: [{macro_namespace: dbt, search_order: [<the project>, deltajoin, dbt]}]
-#}
{% macro spark__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {%- if not full_refresh and old_relation and deltajoin.fits_seed(old_relation, model, agate_table) -%}
    {%- set sql = 'delete from ' ~ old_relation -%}
    {%- do run_query(sql) -%}
    {{ return(sql) }}
  {%- endif -%}
  {%- if old_relation -%}{%- do adapter.drop_relation(old_relation) -%}{%- endif -%}
  {{ return(create_csv_table(model, agate_table)) }}
{% endmacro %}


{#- Whether a table is Delta and has the columns and types that the seed would be created with. -#}
{% macro fits_seed(relation, model, agate_table) %}
  {%- set types = model.config.get('column_types', {}) -%}
  {%- set wanted = [] -%}
  {%- for name in agate_table.column_names -%}
    {%- do wanted.append([name | lower, types.get(name, adapter.convert_type(agate_table, loop.index0)) | lower]) -%}
  {%- endfor -%}
  {%- set found = [] -%}
  {%- for column in adapter.get_columns_in_relation(relation) -%}
    {%- do found.append([column.name | lower, column.dtype | lower]) -%}
  {%- endfor -%}
  {{ return(relation.is_delta and found == wanted) }}
{% endmacro %}
