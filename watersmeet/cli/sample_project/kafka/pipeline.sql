-- A web shop in Kafka: orders and payments are topics, and so are the results.
-- compose.yaml starts a broker; feed.py writes messages.

CREATE STREAM orders (id BIGINT, customer BIGINT, amount DECIMAL(10, 2), at TIMESTAMP, _partition INT, _offset BIGINT)
  TIMESTAMP BY at              -- the column of the event time
  LATENESS 10 MINUTES          -- how far a row may be behind the newest row of earlier ticks
  FROM kafka 'orders' WITH ('bootstrap.servers' = 'localhost:9092');

CREATE STREAM payments (order_id BIGINT, method STRING, at TIMESTAMP)
  TIMESTAMP BY at LATENESS 10 MINUTES
  FROM kafka 'payments' WITH (
    'bootstrap.servers' = 'localhost:9092',
    'path.method' = 'how.method'    -- nested: {"order_id": 1, "how": {"method": "card"}, "at": "…"}
    -- With SASL: 'security.protocol' = 'SASL_SSL', 'sasl.mechanism' = 'PLAIN', 'sasl.username' = 'shop',
    --            'sasl.password' = env('KAFKA_PASSWORD')
  );

-- Each result is in the topic once, for consumers with isolation.level = read_committed.
CREATE QUERY paid INTO kafka 'paid' WITH ('bootstrap.servers' = 'localhost:9092', key = 'customer') AS
SELECT o.id, o.customer, o.amount, p.method, p.at AS paid_at
FROM orders [RANGE 30 MINUTES] o, payments [RANGE 30 MINUTES] p
WHERE o.id = p.order_id;
