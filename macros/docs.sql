{#-
  persist_docs, written only where the comment differs: each comment is a commit on the target's log, and a
  run without changes must leave the log alone. A view's columns can't be commented after its creation.
-#}
{% macro persist_docs_changed(relation, model) %}
  {%- set described = none -%}
  {%- if config.persist_relation_docs() and model.description -%}
    {%- set rows = run_query('describe extended ' ~ relation) -%}
    {%- set current = [] -%}
    {%- for row in rows if row[0] == 'Comment' -%}{%- do current.append(row[1]) -%}{%- endfor -%}
    {%- if current != [model.description] -%}
      {%- do run_query("alter " ~ relation.type ~ " " ~ relation ~ " set tblproperties ('comment' = '"
            ~ deltajoin.escaped(model.description) ~ "')") -%}
    {%- endif -%}
  {%- endif -%}
  {%- if config.persist_column_docs() and model.columns and relation.type == 'table' -%}
    {%- set current = {} -%}
    {%- for row in run_query('describe ' ~ relation) -%}
      {%- do current.update({row[0]: row[2] or ''}) -%}
    {%- endfor -%}
    {%- for name, column in model.columns.items() -%}
      {%- if name in current and column.description and current[name] != column.description -%}
        {%- do run_query("alter table " ~ relation ~ " change column " ~ adapter.quote(name)
              ~ " comment '" ~ deltajoin.escaped(column.description) ~ "'") -%}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{% endmacro %}


{% macro escaped(text) %}
  {{- return(text | replace('\\', '\\\\') | replace("'", "\\'")) -}}
{% endmacro %}
