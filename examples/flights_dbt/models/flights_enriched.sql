{{ deltajoin.delta_join(mode='auto') }}

select
  f.time_hour,
  f.carrier,
  f.flight,
  f.tailnum,
  f.origin,
  f.dest,
  f.sched_dep_time,
  f.dep_time,
  f.dep_delay,
  f.arr_delay,
  f.air_time,
  f.distance,
  al.name as airline,
  o.name as origin_name,
  d.name as dest_name,
  d.lat as dest_lat,
  d.lon as dest_lon,
  p.manufacturer,
  p.model,
  p.year as plane_year,
  p.seats,
  p.engine,
  w.temp,
  w.wind_speed,
  w.precip,
  w.visib
from {{ source('raw', 'flights') }} as f
join {{ source('raw', 'weather') }} as w on w.origin = f.origin and w.time_hour = f.time_hour
join {{ source('raw', 'planes') }} as p on p.tailnum = f.tailnum
join {{ source('raw', 'airlines') }} as al on al.carrier = f.carrier
join {{ source('raw', 'airports') }} as o on o.faa = f.origin
join {{ source('raw', 'airports') }} as d on d.faa = f.dest
