-- The same for each kind of bid, which here is the first letter of what else a bid says, and when the last one came.
SELECT substring(extra, 1, 1) AS channel,
  date_format(window_start, 'yyyy-MM-dd') AS day,
  max(date_format(at, 'HH:mm')) AS minute,
  count(*) AS bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  count(DISTINCT bidder) AS bidders,
  count(DISTINCT auction) AS auctions
FROM bids [TUMBLE 1 DAY]
GROUP BY substring(extra, 1, 1)
