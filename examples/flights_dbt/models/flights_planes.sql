{{ deltajoin.delta_join(mode='auto') }}

select
  f.time_hour,
  f.carrier,
  f.flight,
  f.tailnum,
  f.origin,
  f.dest,
  p.dbt_valid_from as plane_since,
  p.manufacturer,
  p.model,
  p.seats,
  p.engine
from {{ source('raw', 'flights') }} as f
join {{ ref('planes_history') }} as p
  on p.tailnum = f.tailnum
  and f.time_hour >= p.dbt_valid_from
  and f.time_hour < coalesce(p.dbt_valid_to, timestamp '9999-12-31 00:00:00')
