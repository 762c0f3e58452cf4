"""Watersmeet from Python: two streaming DataFrames, one join query, its results in three ways.

Run it:  python examples/quickstart.py
"""

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

import watersmeet

CLICKS = """user,page,at
1,kettle,2026-03-02T08:00:00
2,lamp,2026-03-02T08:00:04
1,desk,2026-03-02T08:00:09
"""
PURCHASES = """buyer,product,price,at
1,kettle,39.00,2026-03-02T08:00:05
2,lamp,25.00,2026-03-02T08:00:30
1,desk,240.00,2026-03-02T08:00:12
"""


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    for name, text in (("clicks", CLICKS), ("purchases", PURCHASES)):
        (folder / name).mkdir()
        (folder / name / "1.csv").write_text(text)

    # An engine makes a Spark session that suits it; Engine(spark=…) uses one of yours.
    engine = watersmeet.Engine(home=folder / "home")
    read = engine.spark.readStream.option("header", True)

    # A stream is any streaming DataFrame (files, Kafka, a table …) and the column with the event time.
    clicks = read.schema("user BIGINT, page STRING, at TIMESTAMP").csv(str(folder / "clicks"))
    purchases = read.schema("buyer BIGINT, product STRING, price DECIMAL(10, 2), at TIMESTAMP").csv(
        str(folder / "purchases")
    )
    engine.stream("clicks", clicks, time="at", lateness="5 seconds")
    engine.stream("purchases", purchases, time="at", lateness="5 seconds")

    # A window says how much older than the newest row of a result a row may be.
    bought = engine.query(
        "bought",
        """
        SELECT c.user, c.page, p.price, c.at AS clicked_at, p.at AS bought_at
        FROM clicks [RANGE 10 SECONDS] c, purchases [RANGE 10 SECONDS] p
        WHERE c.user = p.buyer AND c.page = p.product
        """,
    )

    # 1. A callable that gets each tick's results as a DataFrame, after they are committed.
    def deliver(results: DataFrame, tick: int) -> None:
        print(f"tick {tick}: {results.count()} results")

    bought.foreach_tick(deliver)

    # engine.start() would continue with new files until engine.stop(); this ends when the sources have nothing new.
    engine.run_once()

    # 2. All results so far, as a DataFrame. The lamp was bought 26 seconds after the click: no result.
    bought.results().orderBy("clicked_at").show()

    # 3. The same as Parquet files for anybody else (bought.stream() is a streaming DataFrame over them).
    print("result files:", *sorted(path.name for path in bought.folder.glob("*.parquet")))

    # What the engine keeps and how it finds the results.
    print(engine.explain())
    engine.stop()


if __name__ == "__main__":
    main()
