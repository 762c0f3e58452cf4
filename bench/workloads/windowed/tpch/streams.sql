-- The tables of TPC-H as streams. `ts` is the event time; money and shares are decimals as short as their values allow.
CREATE STREAM lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(6, 2),
  l_extendedprice DECIMAL(12, 2), l_discount DECIMAL(4, 2), l_tax DECIMAL(4, 2), l_returnflag STRING, l_linestatus STRING,
  l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, ts TIMESTAMP)
  TIMESTAMP BY ts FROM parquet 'lineitem';
CREATE STREAM orders (o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2),
  o_orderdate DATE, o_orderpriority STRING, o_shippriority INT, o_comment STRING, ts TIMESTAMP)
  TIMESTAMP BY ts FROM parquet 'orders';
CREATE STREAM customer (c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING,
  c_acctbal DECIMAL(12, 2), c_mktsegment STRING, c_comment STRING, ts TIMESTAMP)
  TIMESTAMP BY ts FROM parquet 'customer';
CREATE STREAM part (p_partkey BIGINT, p_name STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING,
  p_retailprice DECIMAL(12, 2), ts TIMESTAMP) TIMESTAMP BY ts FROM parquet 'part';
CREATE STREAM partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(12, 2), ts TIMESTAMP)
  TIMESTAMP BY ts FROM parquet 'partsupp';
CREATE STREAM supplier (s_suppkey BIGINT, s_name STRING, s_nationkey BIGINT, s_acctbal DECIMAL(12, 2), ts TIMESTAMP)
  TIMESTAMP BY ts FROM parquet 'supplier';
CREATE STREAM nation (n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, ts TIMESTAMP)
  TIMESTAMP BY ts FROM parquet 'nation';
CREATE STREAM region (r_regionkey BIGINT, r_name STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM parquet 'region';
