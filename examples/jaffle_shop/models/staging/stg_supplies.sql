with source as (

    select * from {{ source('raw', 'raw_supplies') }}

),

renamed as (

    select
        id as supply_id,
        sku as product_id,
        name as supply_name,
        cast(cost / 100 as decimal(12, 2)) as supply_cost
    from source

)

select * from renamed
