"""`python -m bench.kafka.spark_peer join|pairs SERVERS FOLDER [ROWS]`: Spark's own source, joins and sink.

Its Kafka package is a mix of versions that works with this Spark: 4.2.0, with the token provider of 4.0.0.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.kafka.workload import STREAMS, WINDOW
from bench.peers.spark import session
from tests.support.brokers.maven import jars

_ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
_SPAN = f"INTERVAL {WINDOW} SECONDS"


def _input(spark: SparkSession, servers: str, topic: str, columns: tuple[str, ...], **options: str) -> DataFrame:
    """Columns with the first letter of the topic before their names."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options)
    schema = "ts TIMESTAMP, " + ", ".join(f"{name} BIGINT" for name in columns)
    parsed = reader.load().select(f.from_json(f.col("value").cast("string"), schema).alias("v")).select("v.*")
    named = parsed.select(*(f.col(name).alias(f"{topic[0]}_{name}") for name in ("ts", *columns)))
    return named.withWatermark(f"{topic[0]}_ts", f"{WINDOW} seconds")


def join(spark: SparkSession, servers: str, rows: str) -> DataFrame:
    frames = {
        name: _input(spark, servers, name, ("id", *columns), maxOffsetsPerTrigger=rows)
        for name, columns in STREAMS.items()
    }
    # One event time remains after a join; the other is compared as a number.
    first = frames["r"].join(frames["s"], f.expr(f"r_a = s_a AND s_ts BETWEEN r_ts - {_SPAN} AND r_ts + {_SPAN}"))
    first = first.withColumn("s_us", f.expr("unix_micros(s_ts)")).drop("s_ts")
    also = f"t_ts BETWEEN r_ts - {_SPAN} AND r_ts + {_SPAN} AND abs(unix_micros(t_ts) - s_us) <= {WINDOW}000000"
    joined = first.join(frames["t"], f.expr(f"s_b = t_b AND {also}"))
    return joined.selectExpr("to_json(struct(r_id AS r, s_id AS s, t_id AS t, t_c AS c)) AS value")


def pairs(spark: SparkSession, servers: str) -> DataFrame:
    left, right = (_input(spark, servers, f"{side}_spark", ("id", "sent")) for side in ("left", "right"))
    joined = left.join(right, f.expr(f"l_id = r_id AND l_ts BETWEEN r_ts - {_SPAN} AND r_ts + {_SPAN}"))
    return joined.selectExpr("to_json(struct(l_id AS id, greatest(l_sent, r_sent) AS sent)) AS value")


def main(what: str, servers: str, folder: str, rows: str = "") -> None:
    libraries = jars("spark-kafka", *_ARTIFACTS, excluded=("*:*",))
    spark = session({"spark.jars": ",".join(str(path) for path in libraries.glob("*.jar"))})
    frame = join(spark, servers, rows) if what == "join" else pairs(spark, servers)
    topic = "out_spark" if what == "join" else "pairs_spark"
    writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", topic).option("checkpointLocation", f"{folder}/check")
    writer = writer.trigger(availableNow=True) if what == "join" else writer.trigger(processingTime="0 seconds")
    print(f"began {time.time()}", flush=True)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
