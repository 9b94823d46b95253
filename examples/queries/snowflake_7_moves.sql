-- Eight relations (like TPC-DS Q46): bought in another city than where the customer lives.
SELECT ss.ss_quantity AS quantity, ss.ss_net_profit AS profit
FROM customer AS c
JOIN customer_address AS now ON c.c_current_addr_sk = now.ca_address_sk
JOIN store_sales AS ss ON ss.ss_customer_sk = c.c_customer_sk
JOIN customer_address AS sold ON ss.ss_addr_sk = sold.ca_address_sk
JOIN household_demographics AS hd ON ss.ss_hdemo_sk = hd.hd_demo_sk
JOIN date_dim AS d ON ss.ss_sold_date_sk = d.d_date_sk
JOIN store AS s ON ss.ss_store_sk = s.s_store_sk
JOIN state AS st ON s.s_state_sk = st.st_state_sk
WHERE now.ca_city <> sold.ca_city
  AND (hd.hd_dep_count = 4 OR hd.hd_vehicle_count = 3)
  AND d.d_dow IN (0, 6)
  AND d.d_year BETWEEN 1999 AND 2001
  AND st.st_code IN ('S03', 'S17', 'S31', 'S44')
