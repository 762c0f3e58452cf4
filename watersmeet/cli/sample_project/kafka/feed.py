"""Writes orders and payments into their topics until Ctrl-C, and prints the results: python feed.py"""

import itertools
import json
import random
import time
from datetime import UTC, datetime

from confluent_kafka import Consumer, Producer

SERVERS = "localhost:9092"


def main() -> None:
    producer = Producer({"bootstrap.servers": SERVERS})
    consumer = Consumer(
        {
            "bootstrap.servers": SERVERS,
            "group.id": "feed",
            "isolation.level": "read_committed",
            "auto.offset.reset": "latest",
        }
    )
    consumer.subscribe(["paid"])
    for number in itertools.count(time.time_ns() // 1_000_000):
        now = datetime.now(UTC).isoformat()
        order = {"id": number, "customer": random.randint(1, 60), "amount": f"{random.randint(5, 500)}.00", "at": now}
        producer.produce("orders", json.dumps(order))
        if number % 10:
            paid = {"order_id": number, "how": {"method": random.choice(["card", "voucher"])}, "at": now}
            producer.produce("payments", json.dumps(paid))
        producer.poll(0)
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            print(message.key(), message.value(), dict(message.headers() or []))


if __name__ == "__main__":
    main()
