-- How many bids each person made in ten seconds (Nexmark's q11 has sessions in the place of these windows).
SELECT b.bidder, count(*) AS bids, window_start, window_end
FROM bids b
GROUP BY b.bidder, window(b.at, '10 seconds')
