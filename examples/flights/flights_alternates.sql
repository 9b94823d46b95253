-- The airports within 100 km of the end of each route, by the haversine formula.
select
  r.origin,
  r.dest,
  n.faa as alternate,
  n.name as alternate_name,
  2 * 6371 * asin(sqrt(pow(sin(radians(n.lat - d.lat) / 2), 2)
    + cos(radians(d.lat)) * cos(radians(n.lat)) * pow(sin(radians(n.lon - d.lon) / 2), 2))) as km
from (select distinct origin, dest from flights) as r
join airports as d on d.faa = r.dest
join airports as n
  on n.faa <> d.faa
  and 2 * 6371 * asin(sqrt(pow(sin(radians(n.lat - d.lat) / 2), 2)
    + cos(radians(d.lat)) * cos(radians(n.lat)) * pow(sin(radians(n.lon - d.lon) / 2), 2))) <= 100
