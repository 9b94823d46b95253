with source as (

    select * from {{ source('raw', 'raw_stores') }}

),

renamed as (

    select
        id as store_id,
        name as store_name,
        opened_at as opened_on,
        cast(tax_basis_points / 10000 as decimal(6, 4)) as tax_rate
    from source

)

select * from renamed
