{#-
  materialized='delta_join': the model's table, kept equal to its SQL by reading only what changed.

  The order is that of dbt's own materializations: hooks outside the transaction, hooks inside it, the run,
  grants, docs, constraints, hooks inside, hooks outside. Spark has no transactions, so the two kinds differ only in
  their order. The run itself happens in Python, in the Spark session that dbt uses; its audit record is
  the adapter response of the model in run_results.json.
-#}
{% materialization delta_join, adapter='spark', supported_languages=['sql'] %}
  {%- set existing = load_relation(this) -%}
  {%- set full_refresh = should_full_refresh() -%}
  {%- do deltajoin.warn_ignored_configs() -%}

  {{ deltajoin.run_hooks_outside(pre_hooks) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {%- if config.get('contract').enforced -%}
    {%- do get_assert_columns_equivalent(compiled_code) -%}
  {%- endif -%}

  {%- if flags.EMPTY -%}
    {%- set response = deltajoin.build_empty(this, existing, compiled_code) -%}
  {%- else -%}
    {%- set response = adapter.deltajoin_run(
          model, compiled_code, this, graph, existing=existing, full_refresh=full_refresh) -%}
  {%- endif -%}
  {%- do store_result('main', response=response) -%}
  {{ write(compiled_code) }}

  {%- set audit = response.deltajoin or {} -%}
  {%- if flags.EMPTY and existing is not none -%}
    {%- set target = existing -%}
  {%- else -%}
    {%- set target = this.incorporate(type='view' if audit.kind in ['bag', 'grouped'] else 'table') -%}
  {%- endif -%}
  {%- if existing is not none and existing.type != target.type -%}
    {%- do adapter.cache_dropped(existing) -%}
  {%- endif -%}

  {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh)) -%}
  {%- do deltajoin.persist_docs_changed(target, model) -%}
  {%- if target.type == 'table' and audit.strategy == 'full' and audit.epoch == 1 -%}
    {%- do persist_constraints(target, model) -%}
  {%- endif -%}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ deltajoin.run_hooks_outside(post_hooks) }}

  {{ return({'relations': [target]}) }}
{% endmaterialization %}


{#- dbt's run_hooks with the hooks outside a transaction, without the `commit` that Spark can't parse. -#}
{% macro run_hooks_outside(hooks) %}
  {%- for hook in hooks | selectattr('transaction', 'equalto', false) -%}
    {%- set sql = render(hook.get('sql')) | trim -%}
    {%- if sql | length > 0 -%}
      {%- call statement(auto_begin=false) -%}{{ sql }}{%- endcall -%}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}
