-- Persons who came and opened auctions in the same ten seconds.
SELECT p.id, p.name, window_start
FROM (SELECT id, name FROM persons [TUMBLE 10 SECONDS] GROUP BY id, name) p
JOIN (SELECT seller FROM auctions [TUMBLE 10 SECONDS] GROUP BY seller) a ON p.id = a.seller
