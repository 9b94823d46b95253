-- Filters two hops from the fact on both arms: category over brand and item, region over state.
SELECT ss.ss_net_profit AS profit
FROM store_sales AS ss
JOIN customer AS c ON ss.ss_customer_sk = c.c_customer_sk
JOIN store AS s ON ss.ss_store_sk = s.s_store_sk
JOIN state AS st ON s.s_state_sk = st.st_state_sk
JOIN sales_region AS rg ON st.st_region_sk = rg.rg_region_sk
JOIN item AS i ON ss.ss_item_sk = i.i_item_sk
JOIN brand AS b ON i.i_brand_sk = b.b_brand_sk
JOIN category AS cg ON b.b_category_sk = cg.cg_category_sk
WHERE cg.cg_name = 'Books'
  AND rg.rg_name = 'West'
  AND c.c_preferred = 'Y'
