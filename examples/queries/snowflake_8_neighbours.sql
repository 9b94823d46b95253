-- A cycle by equality (like TPC-DS Q24): customers who live in the state of the store.
SELECT ss.ss_net_profit AS profit
FROM customer_address AS ca
JOIN state AS st ON ca.ca_state_sk = st.st_state_sk
JOIN customer AS c ON c.c_current_addr_sk = ca.ca_address_sk
JOIN store_sales AS ss ON ss.ss_customer_sk = c.c_customer_sk
JOIN store AS s ON ss.ss_store_sk = s.s_store_sk AND s.s_state_sk = ca.ca_state_sk
JOIN item AS i ON ss.ss_item_sk = i.i_item_sk
JOIN manufacturer AS mf ON i.i_manufact_sk = mf.mf_manufact_sk
WHERE mf.mf_country = 'DE'
  AND c.c_birth_year BETWEEN 1960 AND 1969
  AND s.s_market_id <= 5
