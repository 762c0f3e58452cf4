"""Windowed queries of the advertising workload, and their text for each system."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MICROS = 1_000_000
IMPRESSIONS = (
    "CREATE STREAM impressions (ts TIMESTAMP, id BIGINT, person BIGINT, site STRING, campaign INT, price BIGINT) "
    "TIMESTAMP BY ts FROM parquet '{folder}/impressions' WITH (maxFilesPerTrigger = 1);\n"
)
CLICKS = (
    "CREATE STREAM clicks (ts TIMESTAMP, impression BIGINT, cost BIGINT) "
    "TIMESTAMP BY ts FROM parquet '{folder}/clicks' WITH (maxFilesPerTrigger = 1);\n"
)
STREAMS = IMPRESSIONS + CLICKS
KEYS = ("campaign", "site", "substring(site, 1, 2)", "person")
FILTERS = ("", "price > 800", "price < 200", "campaign < 100", "campaign % 2 = 0", "site LIKE 'a%'", "person % 10 = 3")
VALUES = ("count(*)", "sum(price)", "max(price)", "avg(price)")
FEW_PERSONS = 1_000
JOINED = ("count(*)", "sum(c.cost)", "max(c.cost)", "sum(i.price)")


@dataclass(frozen=True)
class Question:
    """A windowed query, written once for each system: `range` and `slide` in seconds."""

    name: str
    range: int
    slide: int
    key: str
    value: str
    where: str = ""
    having: str = ""
    joins: bool = False
    grouped: bool = True  # otherwise it gives rows: key and value of each
    only_counts: bool = False  # Watersmeet writes no rows

    @property
    def watersmeet(self) -> str:
        bracket = f"[RANGE {self.range} SECONDS SLIDE {self.slide} SECONDS]"
        name = f"{self.name} INTO count" if self.only_counts else self.name
        return (
            f"CREATE QUERY {name} AS SELECT window_start AS w, {self.key} AS k, {self.value} AS v "
            f"FROM {self._source(bracket)}{self._tail()};\n"
        )

    def duckdb(self, start: str) -> str:
        """Over the rows of one window, which are in `impressions` and `clicks`."""
        return f"SELECT {start} AS w, {self.key} AS k, {self.value} AS v FROM {self._source('')}{self._tail()}"

    def _source(self, bracket: str) -> str:
        if self.joins:
            return f"impressions {bracket} i JOIN clicks {bracket} c ON i.id = c.impression"
        return f"impressions {bracket}"

    def _tail(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        if not self.grouped:
            return where
        return f"{where} GROUP BY {self.key}" + (f" HAVING {self.having}" if self.having else "")

    @property
    def flink(self) -> str:
        lengths = [self.range] if self.slide == self.range else [self.slide, self.range]
        listed = ", ".join(f"INTERVAL '{each}' SECOND" for each in lengths)
        windows = "TUMBLE" if self.slide == self.range else "HOP"
        i, c = (f"TABLE({windows}(TABLE {name}, DESCRIPTOR(rt), {listed}))" for name in ("impressions", "clicks"))
        # Its averages of integers are integers.
        value = self.value.replace("avg(price)", "avg(CAST(price AS DOUBLE))")
        of, ends = ("i.", "i.window_start, i.window_end") if self.joins else ("", "window_start, window_end")
        start = f"UNIX_TIMESTAMP(DATE_FORMAT({of}window_start, 'yyyy-MM-dd HH:mm:ss')) * 1000000"
        joined = (
            f"(SELECT * FROM {i}) i JOIN (SELECT * FROM {c}) c ON i.id = c.impression "
            "AND i.window_start = c.window_start AND i.window_end = c.window_end"
        )
        tail = self._tail().replace("GROUP BY ", f"GROUP BY {ends}, ")
        columns = f"{start} AS w, CAST({self.key} AS STRING) AS k, CAST({value} AS DOUBLE) AS v"
        return f"SELECT {columns} FROM {joined if self.joins else i}{tail}"


def script(questions: Sequence[Question], folder: Path) -> str:
    """The queries, and the streams that they read: the loop reads no others."""
    streams = STREAMS if any(each.joins for each in questions) else IMPRESSIONS
    return streams.format(folder=folder) + "".join(each.watersmeet for each in questions)


def aggregations(count: int = 50, by_person: int = 10, seed: int = 28) -> tuple[Question, ...]:
    """Sliding aggregations of impressions; the first ones by person, of whom the busy ones are asked for."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        slide = chance.randint(1, 10)
        length = slide * chance.randint(-(-5 // slide), 30 // slide)
        key = "person" if number < by_person else chance.choice(KEYS[:3])
        found.append(
            Question(
                f"q{number}",
                length,
                slide,
                key,
                chance.choice(VALUES),
                chance.choice(FILTERS),
                "count(*) >= 5" if key == "person" else "",
            )
        )
    return tuple(found)


def aggregations_of_join(count: int = 10, seed: int = 28) -> tuple[Question, ...]:
    """Sliding aggregations of impressions and their clicks."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        slide = chance.randint(1, 5)
        length = slide * chance.randint(-(-5 // slide), 30 // slide)
        key = chance.choice(("i.campaign", "i.site"))
        where = chance.choice(("", "i.campaign < 100", "i.campaign % 2 = 0"))
        found.append(Question(f"j{number}", length, slide, key, chance.choice(JOINED), where, joins=True))
    return tuple(found)


def rows_of_join(slide: int) -> Question:
    """Impressions with their clicks in the same window of ten seconds."""
    return Question("rows", 10, slide, "i.id", "c.cost", joins=True, grouped=False)


def aggregations_by_person(count: int, persons: int, seed: int = 28) -> tuple[Question, ...]:
    """Sliding aggregations by one key; with many keys the busy ones are asked for."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        slide = chance.randint(1, 5)
        length = slide * chance.randint(1, 10 // slide)
        value, where = chance.choice(VALUES), chance.choice(FILTERS)
        having = "count(*) >= 5" if persons > FEW_PERSONS else ""
        found.append(Question(f"q{number}", length, slide, "person", value, where, having))
    return tuple(found)
