-- A web shop. Three streams of CSV files, and queries that join them while new files arrive.
-- Paths are relative to this file.

CREATE STREAM orders (id BIGINT, customer BIGINT, product STRING, amount DECIMAL(10, 2), at TIMESTAMP)
  TIMESTAMP BY at              -- the column of the event time
  LATENESS 10 MINUTES          -- how far a row may be behind the newest row of earlier ticks
  FROM csv 'data/orders' WITH (header = true, maxFilesPerTrigger = 1);

CREATE STREAM payments (order_id BIGINT, method STRING, amount DECIMAL(10, 2), at TIMESTAMP)
  TIMESTAMP BY at LATENESS 10 MINUTES
  FROM csv 'data/payments' WITH (header = true, maxFilesPerTrigger = 1);

CREATE STREAM shipments (order_id BIGINT, carrier STRING, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 10 MINUTES
  FROM csv 'data/shipments' WITH (header = true, maxFilesPerTrigger = 1);

-- Orders of 200 or more, paid within half an hour. A window is how long a row waits for its partners.
-- INTO names the folder of the results; without it they are Parquet files in the home folder.
CREATE QUERY big_orders INTO csv 'results/big_orders' AS
SELECT o.id, o.customer, o.product, o.amount, p.method, p.at AS paid_at
FROM orders [RANGE 30 MINUTES] o, payments [RANGE 30 MINUTES] p
WHERE o.id = p.order_id AND o.amount >= 200;

-- Ordered, paid and shipped: three streams. It shares the stored orders and payments with big_orders.
CREATE QUERY delivered AS
SELECT o.id, o.product, p.method, s.carrier, o.at AS ordered_at, s.at AS shipped_at
FROM orders [RANGE 2 HOURS] o, payments [RANGE 2 HOURS] p, shipments [RANGE 2 HOURS] s
WHERE o.id = p.order_id AND o.id = s.order_id;

-- Paid twice: the same stream under two names.
CREATE QUERY paid_twice AS
SELECT card.order_id, card.amount, card.at AS by_card_at, voucher.at AS by_voucher_at
FROM payments [RANGE 1 HOUR] card, payments [RANGE 1 HOUR] voucher
WHERE card.order_id = voucher.order_id AND card.method = 'card' AND voucher.method = 'voucher';
