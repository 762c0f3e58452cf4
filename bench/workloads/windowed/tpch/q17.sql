-- A year's revenue from small orders of a part, small compared with the average order of it.
SELECT sum(l.l_extendedprice) / 7.0 AS yearly
FROM lineitem l
JOIN part p ON p.p_partkey = l.l_partkey
WHERE p.p_brand = 'Brand#23' AND p.p_container = 'MED BOX'
  AND l.l_quantity < (SELECT 0.2 * avg(other.l_quantity) FROM lineitem other WHERE other.l_partkey = p.p_partkey)
WINDOW 1 HOUR SLIDE 1 MINUTE
