-- Nine relations (like TPC-DS Q64): demographics of the sale and of the customer today differ.
SELECT ss.ss_sales_price AS price
FROM store_sales AS ss
JOIN customer_demographics AS cd1 ON ss.ss_cdemo_sk = cd1.cd_demo_sk
JOIN customer AS c ON ss.ss_customer_sk = c.c_customer_sk
JOIN customer_demographics AS cd2 ON c.c_current_cdemo_sk = cd2.cd_demo_sk
JOIN household_demographics AS hd ON c.c_current_hdemo_sk = hd.hd_demo_sk
JOIN income_band AS ib ON hd.hd_income_band_sk = ib.ib_income_band_sk
JOIN item AS i ON ss.ss_item_sk = i.i_item_sk
JOIN date_dim AS d ON ss.ss_sold_date_sk = d.d_date_sk
JOIN store AS s ON ss.ss_store_sk = s.s_store_sk
WHERE cd1.cd_marital_status <> cd2.cd_marital_status
  AND i.i_color IN ('color 1', 'color 22', 'color 45', 'color 60')
  AND i.i_current_price BETWEEN 10 AND 40
  AND d.d_year = 1999
  AND ib.ib_upper_bound <= 100000
