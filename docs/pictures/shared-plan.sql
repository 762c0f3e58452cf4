-- The pipeline of shared-plan.svg:
--   watersmeet explain docs/pictures/shared-plan.sql --format svg > docs/pictures/shared-plan.svg

CREATE STREAM persons (id BIGINT, name STRING, state STRING, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'input/persons';
CREATE STREAM auctions (id BIGINT, item STRING, category BIGINT, seller BIGINT, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'input/auctions';
CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 1 SECOND FROM parquet 'input/bids';

CREATE QUERY books AS
SELECT b.price, a.item
FROM bids [RANGE 10 SECONDS] b, auctions [RANGE 1 MINUTE] a
WHERE b.auction = a.id AND a.category = 10;

CREATE QUERY high AS
SELECT b.price, a.item, p.name AS seller
FROM bids [RANGE 5 SECONDS] b, auctions [RANGE 1 MINUTE] a, persons [RANGE 1 HOUR] p
WHERE b.auction = a.id AND a.seller = p.id AND b.price > 1000;

CREATE QUERY sellers AS
SELECT p.name, p.state, a.item
FROM auctions [RANGE 1 MINUTE] a, persons [RANGE 1 HOUR] p
WHERE a.seller = p.id;
