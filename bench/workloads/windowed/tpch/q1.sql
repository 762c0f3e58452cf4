-- Totals and averages of what was shipped until 90 days before the end of 1998-11, by flag and status.
SELECT l_returnflag, l_linestatus,
  sum(l_quantity) AS quantity,
  sum(l_extendedprice) AS base_price,
  sum(l_extendedprice * (1 - l_discount)) AS discounted,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
  avg(l_quantity) AS average_quantity,
  avg(l_extendedprice) AS average_price,
  avg(l_discount) AS average_discount,
  count(*) AS items
FROM lineitem
WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus
WINDOW 1 HOUR SLIDE 1 MINUTE
