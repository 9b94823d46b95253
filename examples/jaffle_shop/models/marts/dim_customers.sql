-- One row per customer, also one who never ordered.
select
    customers.customer_id,
    customers.customer_name,
    customers.email,
    count(orders.order_id) as orders,
    min(orders.ordered_on) as first_order,
    max(orders.ordered_on) as latest_order
from {{ ref('stg_customers') }} as customers
left join {{ ref('stg_orders') }} as orders on customers.customer_id = orders.customer_id
group by customers.customer_id, customers.customer_name, customers.email
