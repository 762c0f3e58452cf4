-- Queries over the events that `watersmeet demo` leaves behind. From the folder of this file:
--
--   watersmeet demo --home demo          makes demo/input
--   watersmeet run auctions.sql --once   reads it again, with other queries and a home of its own
--
-- Paths are relative to this file.

CREATE STREAM persons (id BIGINT, name STRING, city STRING, state STRING, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'demo/input/persons';

-- Columns of the files that no query needs (here: reserve, extra …) can be left out.
CREATE STREAM auctions (id BIGINT, item STRING, category BIGINT, seller BIGINT, at TIMESTAMP, expires TIMESTAMP)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'demo/input/auctions';

CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'demo/input/bids';

-- A window counts back from the newest row of a result: here a bid and an auction opened up to 10 s before it,
-- or an auction and a bid up to 2 s before it. Expressions are Spark SQL.
CREATE QUERY quick_bids INTO json 'results/quick_bids' AS
SELECT a.id, a.item, b.price / 100 AS price, timestampdiff(MILLISECOND, a.at, b.at) AS after_ms
FROM auctions [RANGE 10 SECONDS] a JOIN bids [RANGE 2 SECONDS] b ON b.auction = a.id;

-- One window for all aliases stands at the end. Both queries look for the bids of an auction: that is done once.
CREATE QUERY bids_from_home AS
SELECT a.item, seller.city, seller.name AS seller, bidder.name AS bidder, b.price / 100 AS price
FROM bids b, auctions a, persons seller, persons bidder
WHERE b.auction = a.id AND a.seller = seller.id AND b.bidder = bidder.id AND seller.city = bidder.city
WINDOW 10 SECONDS;

-- Equal expressions join too, not only equal columns. Families in two states?
CREATE QUERY families INTO csv 'results/families' AS
SELECT p.name, q.name AS other, p.state
FROM persons [RANGE 1 SECOND] p, persons [RANGE 1 SECOND] q
WHERE split_part(p.name, ' ', 2) = split_part(q.name, ' ', 2)
  AND p.state = 'CA' AND q.state = 'WA';
