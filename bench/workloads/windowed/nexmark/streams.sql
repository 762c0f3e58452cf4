-- Nexmark's events as three streams, as `watersmeet demo` makes them.
CREATE STREAM persons (id BIGINT, name STRING, city STRING, state STRING, at TIMESTAMP, extra STRING)
  TIMESTAMP BY at FROM parquet 'persons';
CREATE STREAM auctions (id BIGINT, item STRING, category BIGINT, seller BIGINT, opening_bid BIGINT, reserve BIGINT,
  at TIMESTAMP, expires TIMESTAMP, extra STRING) TIMESTAMP BY at FROM parquet 'auctions';
CREATE STREAM bids (auction BIGINT, bidder BIGINT, price BIGINT, at TIMESTAMP, extra STRING)
  TIMESTAMP BY at FROM parquet 'bids';
