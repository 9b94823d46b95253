-- One row per order, also one without items or without a known customer.
select
    orders.order_id,
    orders.ordered_on,
    orders.status,
    customers.customer_name,
    stores.store_name,
    count(items.order_item_id) as items,
    sum(items.quantity) as quantity,
    sum(items.line_amount) as subtotal,
    max(items.price) as dearest
from {{ ref('stg_orders') }} as orders
left join {{ ref('stg_customers') }} as customers on orders.customer_id = customers.customer_id
left join {{ ref('stg_stores') }} as stores on orders.store_id = stores.store_id
left join {{ ref('int_items_priced') }} as items on orders.order_id = items.order_id
group by
    orders.order_id, orders.ordered_on, orders.status, customers.customer_name, stores.store_name
