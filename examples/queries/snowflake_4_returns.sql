-- Two facts on their composite key (like TPC-DS Q25): what was sold in April and came back soon.
SELECT ss.ss_net_profit AS profit, sr.sr_return_quantity AS returned
FROM store_sales AS ss
JOIN item AS i ON i.i_item_sk = ss.ss_item_sk
JOIN store AS s ON s.s_store_sk = ss.ss_store_sk
JOIN store_returns AS sr
  ON sr.sr_item_sk = ss.ss_item_sk AND sr.sr_ticket_number = ss.ss_ticket_number
JOIN reason AS r ON r.r_reason_sk = sr.sr_reason_sk
JOIN date_dim AS d1 ON d1.d_date_sk = ss.ss_sold_date_sk
JOIN date_dim AS d2 ON d2.d_date_sk = sr.sr_returned_date_sk
WHERE d1.d_year = 2001
  AND d1.d_moy = 4
  AND d2.d_year = 2001
  AND d2.d_moy BETWEEN 4 AND 6
  AND r.r_name IN ('reason 3', 'reason 7', 'reason 11')
