select
    items.order_item_id,
    items.order_id,
    orders.customer_id,
    orders.store_id,
    orders.ordered_on,
    orders.status,
    items.product_id,
    products.product_name,
    products.is_food,
    items.quantity,
    products.price,
    items.quantity * products.price as line_amount
from {{ ref('stg_order_items') }} as items
join {{ ref('stg_orders') }} as orders on items.order_id = orders.order_id
join {{ ref('stg_products') }} as products on items.product_id = products.product_id
