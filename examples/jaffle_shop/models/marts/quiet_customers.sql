-- Customers with no order that they kept.
select customers.customer_id, customers.customer_name, customers.email
from {{ ref('stg_customers') }} as customers
where not exists (
    select 1
    from {{ ref('int_kept_orders') }} as orders
    where orders.customer_id = customers.customer_id
)
