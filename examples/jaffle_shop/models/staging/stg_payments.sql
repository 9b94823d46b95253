with source as (

    select * from {{ source('raw', 'raw_payments') }}

),

renamed as (

    select
        id as payment_id,
        order_id,
        method as payment_method,
        cast(amount / 100 as decimal(12, 2)) as amount,
        status = 'refunded' as is_refund
    from source
    where status <> 'failed'

)

select * from renamed
