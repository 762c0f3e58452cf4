-- Bids for each auction in a day: how many in each rank, the lowest, the highest, the average and the sum.
SELECT auction,
  date_format(window_start, 'yyyy-MM-dd') AS day,
  count(*) AS bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  min(price) AS lowest,
  max(price) AS highest,
  avg(price) AS average,
  sum(price) AS total
FROM bids [TUMBLE 1 DAY]
GROUP BY auction
