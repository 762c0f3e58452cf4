-- Windowed queries that are accepted, of every class; {w} is a window. Names and types are compared with Spark's.
SELECT auction, count(*) AS n FROM bids {w} GROUP BY auction;
SELECT b.kind, sum(amount) / count(*) AS q, sum(amount * share) AS r FROM bids {w} b GROUP BY b.kind;
SELECT count(*) AS n, window_start, window_end FROM bids {w};
SELECT window.start, window.end, max(price) AS p FROM bids b GROUP BY window(b.at, '1 hour');
SELECT DISTINCT kind, n + 1 AS m FROM bids {w} ORDER BY 2 DESC, kind LIMIT 3;
SELECT kind, n FROM bids {w} GROUP BY ALL ORDER BY n NULLS LAST LIMIT 5 OFFSET 2;
SELECT upper(kind) AS k, count(*) AS c FROM bids {w} GROUP BY k HAVING c > 2 AND max(price) > 3 ORDER BY c,
  sum(n) LIMIT 1;
SELECT n AS x, x + 1 AS y FROM bids {w};
SELECT a.name, b.kind FROM bids {w} b LEFT JOIN auctions {w} a ON b.auction = a.id;
SELECT a.name, b.kind FROM bids {w} b RIGHT JOIN auctions {w} a ON b.auction = a.id AND b.price > 3;
SELECT coalesce(a.id, b.auction) AS k FROM bids {w} b FULL OUTER JOIN auctions {w} a ON b.auction = a.id;
SELECT b.* FROM bids {w} b LEFT SEMI JOIN auctions {w} a ON b.auction = a.id;
SELECT b.price FROM bids {w} b ANTI JOIN auctions {w} a ON b.auction = a.id;
SELECT id, name FROM auctions {w} a JOIN persons {w} p USING (id, name);
SELECT * FROM auctions {w} a FULL JOIN persons {w} p USING (id);
SELECT count(*) AS n FROM auctions {w} a NATURAL JOIN persons {w} p;
SELECT * FROM auctions {w} a, persons {w} p CROSS JOIN bids {w} b WHERE a.id = p.id;
SELECT p.name FROM persons {w} p WHERE EXISTS (SELECT 1 FROM auctions {w} a WHERE a.seller = p.id);
SELECT p.name FROM persons {w} p WHERE NOT EXISTS (SELECT * FROM auctions {w} a WHERE a.seller = p.id AND
  a.name < p.name);
SELECT p.name FROM persons {w} p WHERE p.id IN (SELECT seller FROM auctions {w}) OR p.id NOT IN (SELECT bidder
  FROM bids {w});
SELECT p.name, (SELECT sum(amount) FROM bids {w} b WHERE b.bidder = p.id) AS spent FROM persons {w} p;
SELECT p.name, (SELECT b.kind FROM bids {w} b WHERE b.bidder = p.id ORDER BY b.price DESC LIMIT 1) AS best
  FROM persons {w} p;
SELECT b.price FROM bids {w} b WHERE b.price > (SELECT 0.5 * max(o.price) FROM bids {w} o WHERE o.auction =
  b.auction);
SELECT b.price FROM bids {w} b WHERE price = (SELECT max(price) FROM bids {w});
SELECT kind, count(*) AS n FROM bids {w} GROUP BY kind HAVING count(*) > (SELECT avg(weight) FROM auctions
  {w});
WITH top AS (SELECT auction, max(price) AS p FROM bids {w} GROUP BY auction), x AS (SELECT * FROM top WHERE p
  > 3) SELECT t.auction, x.p FROM top t JOIN x ON t.auction = x.auction;
WITH c(k, total) AS (SELECT kind, sum(price) FROM bids {w} GROUP BY kind) SELECT max(total) AS m FROM c;
SELECT d.k FROM (SELECT kind AS k, n FROM bids {w} ORDER BY n LIMIT 3) d;
SELECT d.one FROM (SELECT kind, n FROM bids {w}) d(one, two);
SELECT id FROM persons {w} UNION ALL SELECT category FROM auctions {w};
SELECT id, name FROM persons {w} UNION SELECT seller, name FROM auctions {w} ORDER BY id DESC LIMIT 3;
SELECT id FROM persons {w} INTERSECT SELECT seller FROM auctions {w};
SELECT id FROM persons {w} UNION SELECT seller FROM auctions {w} INTERSECT SELECT bidder FROM bids {w};
SELECT b.kind FROM bids {w} b LEFT JOIN auctions {w} a;
(SELECT id FROM persons {w} EXCEPT SELECT seller FROM auctions {w}) ORDER BY 1 LIMIT 2;
SELECT n, sum(p) AS s FROM (SELECT n, price AS p FROM bids {w} UNION ALL SELECT category, weight FROM auctions
  {w}) GROUP BY n;
SELECT count(DISTINCT kind, n) AS c, sum(DISTINCT n) AS s, avg(DISTINCT amount) AS a FROM bids {w};
SELECT sum(CASE WHEN ok THEN amount ELSE 0 END) AS s, sum(n) FILTER (WHERE ok AND n > 3) AS f FROM bids {w};
SELECT percentile(d, array(0.1, 0.9)) AS p, percentile_approx(amount, array(0.5), 100) AS q FROM bids {w};
SELECT CAST(d AS STRING) AS s, CAST(kind AS DECIMAL(5, 2)) AS t, CAST(d AS DECIMAL(10, 3)) AS u FROM bids {w};
SELECT amount / share AS a, amount * long AS b, amount + long AS c, amount % share AS e, long / long AS g FROM
  bids {w};
SELECT n / small AS a, n % 3 AS b, n div 2 AS c, price + n AS e, -n AS g, amount * 2 AS h, amount / 7.0 AS i
  FROM bids {w};
SELECT arr[0] AS a, m['x'] AS b, st.a AS c, size(arr) AS e, element_at(arr, 1) AS g FROM bids {w};
SELECT exp(n + 1) AS a, initcap(kind) AS b, round(d, 2) AS c, log(2, n) AS e, hash(kind, n) AS g FROM bids {w};
SELECT max(exp(d)) AS a, sum(round(d, 2)) AS b, count(initcap(kind)) AS c FROM bids {w};
SELECT date_format(at, 'EEEE') AS a, year(day) AS b, extract(HOUR FROM at) AS c, timestampdiff(SECOND, at,
  window_end) AS e FROM bids {w};
SELECT day + INTERVAL '1' MONTH AS a, at - INTERVAL '1' HOUR AS b, datediff(day, at) AS c FROM bids {w};
SELECT kind LIKE 'a\\%' AS a, kind NOT LIKE 'it''s' AS b, kind RLIKE '^a' AS c, n BETWEEN 1 AND 3 AS e, kind
  IN ('a', 'b') AS g FROM bids {w};
SELECT if(ok, n, price) AS a, coalesce(n, amount) AS b, nullif(kind, 'x') AS c, greatest(n, d) AS e FROM bids
  {w};
SELECT CASE kind WHEN 'a' THEN n WHEN 'b' THEN d END AS a, ok IS NOT TRUE AS b, n <=> small AS c FROM bids {w};
SELECT a.category, count(*) AS n, sum(b.amount) AS s, min(p.name) AS o FROM bids {w} b JOIN auctions {w} a ON
  b.auction = a.id JOIN persons {w} p ON a.seller = p.id WHERE p.city = 'Rome' GROUP BY a.category;
SELECT kind AS `select`, count(*) AS `a``b` FROM bids {w} GROUP BY kind;
SELECT 'x' AS c, 1 AS one, kind FROM bids {w} GROUP BY 1, 2, 3;
SELECT 5 AS five, count(*) AS n FROM bids {w} GROUP BY 1;
SELECT kind, sum(price) OVER (PARTITION BY kind) AS s, rank() OVER (PARTITION BY n ORDER BY amount DESC) AS r
  FROM bids {w};
SELECT d.kind, d.n FROM (SELECT kind, count(*) AS n, dense_rank() OVER (ORDER BY count(*) DESC) AS place
  FROM bids {w} GROUP BY kind) d WHERE d.place <= 3;
SELECT kind, avg(amount) OVER (ORDER BY day NULLS LAST) AS a, cume_dist() OVER (ORDER BY n) AS c, percent_rank()
  OVER (ORDER BY n) AS p, count(*) FILTER (WHERE ok) OVER () AS f, max_by(kind, n) OVER (PARTITION BY ok) AS m FROM bids {w};
SELECT DISTINCT kind, sum(sum(n)) OVER () AS t FROM bids {w} GROUP BY kind ORDER BY t LIMIT 3;
