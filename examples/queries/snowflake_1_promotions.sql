-- A star of four dimensions (like TPC-DS Q7); the selective one is written last.
SELECT ss.ss_quantity AS quantity, ss.ss_sales_price AS price
FROM item AS i
JOIN store_sales AS ss ON ss.ss_item_sk = i.i_item_sk
JOIN date_dim AS d ON ss.ss_sold_date_sk = d.d_date_sk
JOIN promotion AS p ON ss.ss_promo_sk = p.p_promo_sk
JOIN customer_demographics AS cd ON ss.ss_cdemo_sk = cd.cd_demo_sk
WHERE cd.cd_gender = 'M'
  AND cd.cd_marital_status = 'S'
  AND cd.cd_education_status = 'College'
  AND (p.p_channel_email = 'N' OR p.p_channel_event = 'N')
  AND d.d_year = 2000
