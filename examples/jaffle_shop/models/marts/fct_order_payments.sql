-- What was paid and refunded for each order.
select
    orders.order_id,
    orders.status,
    count(payments.payment_id) as payments,
    sum(payments.amount) as paid,
    sum(case when payments.is_refund then payments.amount end) as refunded,
    count(case when payments.payment_method = 'card' then 1 end) as by_card
from {{ ref('stg_orders') }} as orders
left join {{ ref('stg_payments') }} as payments on orders.order_id = payments.order_id
group by orders.order_id, orders.status
