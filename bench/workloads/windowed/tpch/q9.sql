-- Profit from green parts, by nation of the supplier and year.
SELECT n.n_name AS nation, year(o.o_orderdate) AS ordered,
  sum(l.l_extendedprice * (1 - l.l_discount) - ps.ps_supplycost * l.l_quantity) AS profit
FROM part p, supplier s, lineitem l, partsupp ps, orders o, nation n
WHERE s.s_suppkey = l.l_suppkey AND ps.ps_suppkey = l.l_suppkey AND ps.ps_partkey = l.l_partkey
  AND p.p_partkey = l.l_partkey AND o.o_orderkey = l.l_orderkey AND s.s_nationkey = n.n_nationkey
  AND p.p_name LIKE '%green%'
GROUP BY n.n_name, year(o.o_orderdate)
WINDOW 1 HOUR SLIDE 1 MINUTE
