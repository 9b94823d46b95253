with source as (

    select * from {{ source('raw', 'raw_orders') }}

),

renamed as (

    select
        id as order_id,
        customer_id,
        store_id,
        ordered_at as ordered_on,
        status
    from source

)

select * from renamed
