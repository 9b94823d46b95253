-- One row per item, with its order, product, customer (who may have left) and store.
select
    items.order_item_id,
    items.order_id,
    items.ordered_on,
    items.status,
    customers.customer_name,
    stores.store_name,
    items.product_name,
    items.is_food,
    items.quantity,
    items.price,
    items.line_amount,
    items.line_amount * stores.tax_rate as tax
from {{ ref('int_items_priced') }} as items
left join {{ ref('stg_customers') }} as customers on items.customer_id = customers.customer_id
left join {{ ref('stg_stores') }} as stores on items.store_id = stores.store_id
