-- TPC-H Q7: shipping between two nations; the disjunction over both is decidable late.
SELECT l.l_extendedprice * (1 - l.l_discount) AS volume
FROM supplier AS s, lineitem AS l, orders AS o, customer AS c, nation AS n1, nation AS n2
WHERE s.s_suppkey = l.l_suppkey
  AND o.o_orderkey = l.l_orderkey
  AND c.c_custkey = o.o_custkey
  AND s.s_nationkey = n1.n_nationkey
  AND c.c_nationkey = n2.n_nationkey
  AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY')
    OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
  AND l.l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
