-- Revenue of each store and day, without returned orders.
select
    stores.store_name,
    orders.ordered_on,
    count(distinct orders.order_id) as orders,
    count(*) as items,
    sum(items.line_amount) as revenue,
    sum(items.line_amount * stores.tax_rate) as tax,
    avg(items.line_amount) as average_line
from {{ ref('int_kept_orders') }} as orders
join {{ ref('int_items_priced') }} as items on orders.order_id = items.order_id
join {{ ref('stg_stores') }} as stores on orders.store_id = stores.store_id
group by stores.store_name, orders.ordered_on
