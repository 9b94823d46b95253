-- A cycle (like TPC-DS Q72): sales and stock of the same item in the same week; many to many.
SELECT ss.ss_quantity AS quantity, inv.inv_quantity_on_hand AS stock
FROM store_sales AS ss
JOIN inventory AS inv ON inv.inv_item_sk = ss.ss_item_sk
JOIN date_dim AS d2 ON d2.d_date_sk = inv.inv_date_sk
JOIN date_dim AS d1 ON d1.d_date_sk = ss.ss_sold_date_sk AND d1.d_week_seq = d2.d_week_seq
JOIN item AS i ON i.i_item_sk = ss.ss_item_sk
JOIN household_demographics AS hd ON hd.hd_demo_sk = ss.ss_hdemo_sk
WHERE inv.inv_quantity_on_hand < ss.ss_quantity
  AND hd.hd_buy_potential = '>10000'
  AND i.i_size = 'small'
  AND d1.d_year = 2002
