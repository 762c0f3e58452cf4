-- Which share of a month's revenue came from parts on promotion.
SELECT 100.00 * sum(CASE WHEN p.p_type LIKE 'PROMO%' THEN l.l_extendedprice * (1 - l.l_discount) ELSE 0 END)
  / sum(l.l_extendedprice * (1 - l.l_discount)) AS promoted
FROM lineitem l
JOIN part p ON l.l_partkey = p.p_partkey
WHERE l.l_shipdate >= DATE '1995-09-01' AND l.l_shipdate < DATE '1995-10-01'
WINDOW 1 HOUR SLIDE 1 MINUTE
