-- One row per flight that has weather, a known plane, an airline and two known airports.
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
from flights as f
join weather as w on w.origin = f.origin and w.time_hour = f.time_hour
join planes as p on p.tailnum = f.tailnum
join airlines as al on al.carrier = f.carrier
join airports as o on o.faa = f.origin
join airports as d on d.faa = f.dest
