-- The highest bids of each ten seconds.
SELECT b.auction, b.price, b.bidder, b.at, b.extra
FROM bids [TUMBLE 10 SECONDS] b
JOIN (SELECT max(price) AS highest FROM bids [TUMBLE 10 SECONDS]) top ON b.price = top.highest
