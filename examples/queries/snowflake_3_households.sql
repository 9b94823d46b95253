-- Four relations (like TPC-DS Q96): households over their income band, and a store.
SELECT ss.ss_quantity AS quantity, ss.ss_net_profit AS profit
FROM store_sales AS ss
JOIN store AS s ON ss.ss_store_sk = s.s_store_sk
JOIN household_demographics AS hd ON ss.ss_hdemo_sk = hd.hd_demo_sk
JOIN income_band AS ib ON hd.hd_income_band_sk = ib.ib_income_band_sk
WHERE ib.ib_lower_bound >= 100000
  AND ib.ib_upper_bound <= 130000
  AND hd.hd_vehicle_count > 2
  AND s.s_size = 'small'
