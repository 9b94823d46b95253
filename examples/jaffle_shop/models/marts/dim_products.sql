-- One row per product with what its supplies cost.
select
    products.product_id,
    products.product_name,
    products.product_type,
    products.price,
    count(supplies.supply_id) as supplies,
    sum(supplies.supply_cost) as cost
from {{ ref('stg_products') }} as products
left join {{ ref('stg_supplies') }} as supplies on products.product_id = supplies.product_id
group by
    products.product_id, products.product_name, products.product_type, products.price
