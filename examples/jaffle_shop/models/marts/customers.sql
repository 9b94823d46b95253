-- The customers of the classic jaffle shop: what each ordered and paid, grouped before it is joined.
with customer_orders as (

    select
        customer_id,
        min(ordered_on) as first_order,
        max(ordered_on) as most_recent_order,
        count(order_id) as number_of_orders
    from {{ ref('stg_orders') }}
    group by customer_id

),

customer_payments as (

    select
        orders.customer_id,
        sum(payments.amount) as total_amount
    from {{ ref('stg_payments') }} as payments
    left join {{ ref('stg_orders') }} as orders on payments.order_id = orders.order_id
    group by orders.customer_id

)

select
    customers.customer_id,
    customers.customer_name,
    customer_orders.first_order,
    customer_orders.most_recent_order,
    customer_orders.number_of_orders,
    customer_payments.total_amount as customer_lifetime_value
from {{ ref('stg_customers') }} as customers
left join customer_orders on customers.customer_id = customer_orders.customer_id
left join customer_payments on customers.customer_id = customer_payments.customer_id
