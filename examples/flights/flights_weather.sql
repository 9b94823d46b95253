-- Each flight with its airport's last weather at or before the departure, at most two hours old:
-- an ASOF join. A flight that never left has none.
select
  f.time_hour,
  f.carrier,
  f.flight,
  f.origin,
  f.dest,
  f.departed,
  f.dep_delay,
  w.time_hour as observed,
  w.temp,
  w.wind_speed,
  w.precip,
  w.visib
from (
  select *, cast(timestampadd(minute, minute + dep_delay, time_hour) as timestamp) as departed
  from flights
) as f
left join (
  select *, lead(time_hour) over (partition by origin order by time_hour) as next_hour
  from weather
) as w
  on w.origin = f.origin
  and f.departed >= w.time_hour
  and (f.departed < w.next_hour or w.next_hour is null)
  and f.departed <= w.time_hour + interval 2 hours
