"""An engine on Spark that joins two streams, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.inside import loop_of, published
from tests.support.two_streams import JOIN, create_both, pairs, write
from tests.support.waiting import PATIENCE, eventually
from watersmeet import Engine
from watersmeet.runtime.exec.resident_pool import Residents
from watersmeet.runtime.exec.spark import SparkExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class JoiningEngine:
    """An engine that joins l and r. Every row of l finds row 0 of r, so that what was lost or doubled shows."""

    folder: Path
    engine: Engine
    written: int = 0

    def write(self) -> None:
        write(self.folder / "l", [(1, self.written, 7)])
        self.written += 1

    def caught_up(self) -> bool:
        self.engine.wait(0.01)  # raises what has failed
        return self.engine.stats().streams[0].rows == self.written

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.write()
            eventually(self.caught_up)
            published(self.engine)

    def check(self) -> None:
        assert pairs(self.engine["q"].results()) == [(number, 0) for number in range(self.written)]

    @property
    def executor(self) -> SparkExecutor:
        executor = loop_of(self.engine).executor
        assert isinstance(executor, SparkExecutor)
        return executor

    @property
    def residents(self) -> Residents:
        assert self.executor.residents is not None
        return self.executor.residents


def declare(spark: SparkSession, folder: Path, with_options: str = "", **options: Any) -> JoiningEngine:
    write(folder / "r", [(1, 0, 7)])
    (folder / "l").mkdir(parents=True)
    engine = Engine(spark, home=folder / "home", **{"stop_seconds": PATIENCE, **options})
    engine.sql(create_both(folder, with_options))
    engine.query("q", JOIN)
    return JoiningEngine(folder, engine)
