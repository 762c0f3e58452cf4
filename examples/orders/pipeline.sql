CREATE STREAM orders (id BIGINT, product STRING, amount BIGINT, at TIMESTAMP)
    TIMESTAMP BY at LATENESS 1 MINUTE FROM csv 'data/orders' WITH (header = true);
CREATE STREAM payments (order_id BIGINT, method STRING, at TIMESTAMP)
    TIMESTAMP BY at LATENESS 1 MINUTE FROM csv 'data/payments' WITH (header = true);

CREATE QUERY paid INTO json 'results/paid' AS
    SELECT o.id, o.product, p.method
    FROM orders [RANGE 30 MINUTES] o, payments [RANGE 30 MINUTES] p WHERE o.id = p.order_id;
CREATE QUERY unpaid INTO json 'results/unpaid' AS
    SELECT o.id, o.product
    FROM orders [RANGE 30 MINUTES] o ANTI JOIN payments [RANGE 30 MINUTES] p ON o.id = p.order_id;
CREATE QUERY sales INTO json 'results/sales' AS
    SELECT window_end, product, count(*) AS orders, sum(amount) AS amount
    FROM orders [TUMBLE 1 HOUR] GROUP BY product;
