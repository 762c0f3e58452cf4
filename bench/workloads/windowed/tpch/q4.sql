-- Orders of a quarter with an item that came late, by priority.
SELECT o.o_orderpriority, count(*) AS orders
FROM orders o
WHERE o.o_orderdate >= DATE '1993-07-01' AND o.o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
  AND EXISTS (SELECT l.l_orderkey FROM lineitem l
              WHERE l.l_orderkey = o.o_orderkey AND l.l_commitdate < l.l_receiptdate)
GROUP BY o.o_orderpriority
WINDOW 1 HOUR SLIDE 1 MINUTE
