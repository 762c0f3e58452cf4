-- Hot items: the auctions with most bids of the last ten seconds, every two seconds.
SELECT counted.auction, counted.bids
FROM (SELECT auction, count(*) AS bids FROM bids [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY auction) counted
WHERE counted.bids >= (
  SELECT max(others.bids)
  FROM (SELECT count(*) AS bids FROM bids [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY auction) others)
