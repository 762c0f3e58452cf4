-- An auction site: people register, open auctions and bid. Paths are relative to this file.
-- The queries overlap on purpose: they join on the same keys with different filters and windows, so that each stream is
-- stored once and many probes serve several queries. `happened` is the time of a result's last event; the demo measures
-- the latency with it.

CREATE STREAM persons (id BIGINT, name STRING, city STRING, state STRING, at TIMESTAMP, extra STRING)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'input/persons';

CREATE STREAM auctions (id BIGINT, item STRING, category BIGINT, seller BIGINT, opening_bid BIGINT, reserve BIGINT,
                        at TIMESTAMP, expires TIMESTAMP, extra STRING)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'input/auctions';

CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP, extra STRING)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'input/bids';

-- People who open an auction within ten seconds of registering.
CREATE QUERY new_sellers AS
SELECT p.id, p.name, a.id AS auction, a.item, greatest(p.at, a.at) AS happened
FROM persons [RANGE 10 SECONDS] p, auctions [RANGE 10 SECONDS] a
WHERE p.id = a.seller;

-- What is offered in category 10 by people of three states, however long ago they registered.
CREATE QUERY local_offers AS
SELECT p.name, p.city, p.state, a.id AS auction, a.item, greatest(p.at, a.at) AS happened
FROM auctions [RANGE 30 SECONDS] a, persons [UNBOUNDED] p
WHERE a.seller = p.id AND a.category = 10 AND p.state IN ('OR', 'ID', 'CA');

-- Bids on auctions of category 10.
CREATE QUERY category_bids AS
SELECT b.bidder, b.price, a.id AS auction, a.item, a.opening_bid, greatest(b.at, a.at) AS happened
FROM bids [RANGE 5 SECONDS] b, auctions [RANGE 20 SECONDS] a
WHERE b.auction = a.id AND a.category = 10;

-- High bids with what they are for and who sells it, for sellers in California.
CREATE QUERY high_bids AS
SELECT b.bidder, b.price, a.item, p.name AS seller, p.city, greatest(b.at, a.at, p.at) AS happened
FROM bids [RANGE 5 SECONDS] b, auctions [RANGE 20 SECONDS] a, persons [UNBOUNDED] p
WHERE b.auction = a.id AND a.seller = p.id AND b.price > 1000000 AND p.state = 'CA';

-- Sellers who bid elsewhere: bid and auction of the same person.
CREATE QUERY bidding_sellers AS
SELECT p.name, b.auction AS bids_on, b.price, a.id AS sells, a.item, greatest(b.at, a.at, p.at) AS happened
FROM bids [RANGE 2 SECONDS] b, persons [UNBOUNDED] p, auctions [RANGE 20 SECONDS] a
WHERE b.bidder = p.id AND a.seller = p.id;

-- A very low and a very high bid on the same auction within five seconds of each other.
CREATE QUERY jumps AS
SELECT low.auction, low.bidder AS low_bidder, low.price AS low_price, high.bidder AS high_bidder,
       high.price AS high_price, greatest(low.at, high.at) AS happened
FROM bids [RANGE 5 SECONDS] low, bids [RANGE 5 SECONDS] high
WHERE low.auction = high.auction AND low.price < 200 AND high.price > 50000000;

-- High bids where bidder and seller live in the same state: the people appear twice.
CREATE QUERY neighbours AS
SELECT bidder.name AS bidder, seller.name AS seller, seller.state, a.item, b.price,
       greatest(b.at, a.at, seller.at, bidder.at) AS happened
FROM bids [RANGE 5 SECONDS] b, auctions [RANGE 20 SECONDS] a, persons [UNBOUNDED] seller, persons [UNBOUNDED] bidder
WHERE b.auction = a.id AND a.seller = seller.id AND b.bidder = bidder.id AND seller.state = bidder.state
  AND b.price > 1000000;

-- Every two seconds, of the last ten: the categories with most bids on what was opened in that time.
CREATE QUERY top_categories AS
SELECT a.category, count(*) AS bids, max(b.price) AS highest, window_start, window_end
FROM bids [RANGE 10 SECONDS SLIDE 2 SECONDS] b JOIN auctions [RANGE 10 SECONDS SLIDE 2 SECONDS] a ON b.auction = a.id
GROUP BY a.category ORDER BY bids DESC LIMIT 3;

-- And the most active bidders.
CREATE QUERY active_bidders AS
SELECT bidder, count(*) AS bids, sum(price) AS offered, window_start, window_end
FROM bids [RANGE 10 SECONDS SLIDE 2 SECONDS]
GROUP BY bidder ORDER BY bids DESC LIMIT 5;
