with source as (

    select * from {{ source('raw', 'raw_products') }}

),

renamed as (

    select
        sku as product_id,
        name as product_name,
        type as product_type,
        cast(price / 100 as decimal(12, 2)) as price,
        coalesce(type = 'jaffle', false) as is_food
    from source

)

select * from renamed
