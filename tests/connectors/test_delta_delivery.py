"""INTO delta by an engine in this process: readers of the table see each result once, through deaths and restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.deaths import dying_at, silent_threads
from tests.support.inside import abandon, run_until_death
from tests.support.poisoned import HEALTHY, VICTIM, Poisoned
from tests.support.waiting import eventually
from watersmeet.errors import ModelError, SqlError
from watersmeet.home.manifest import load_newest
from watersmeet.model import Sink
from watersmeet.runtime import outbox

PLAIN = HEALTHY["plain"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(outbox, "_LONGEST_PAUSE", 0.05)


class IntoDelta(Poisoned):
    """An engine whose victim's results go to a Delta table."""

    @property
    def table(self) -> Path:
        return self.folder / "table"

    def into_table(self, name: str = VICTIM, **options: str) -> None:
        self.declare(PLAIN, Sink("delta", str(self.table), tuple(options.items())), name)

    def in_table(self) -> Counter[tuple[int, int]]:
        rows = DeltaTable(self.table).to_pyarrow_table().to_pylist()
        return Counter((row["a"], row["b"]) for row in rows)

    def check_delivered(self, times: int = 1) -> None:
        self.check()  # which compares the results of the same query without INTO with the oracle's
        assert self.in_table() == Counter({row: times * count for row, count in self.results("plain").items()})


@pytest.fixture
def delivered(tmp_path: Path) -> IntoDelta:
    made = IntoDelta(tmp_path)
    made.into_table(compact="3")
    return made


def test_each_result_once_through_restarts_and_compactions(delivered: IntoDelta) -> None:
    for _ in range(7):
        delivered.live()
        delivered.check_delivered()
    assert any(entry["operation"] == "OPTIMIZE" for entry in DeltaTable(delivered.table).history())
    application = f"watersmeet-{load_newest(delivered.home).tag}-{VICTIM}"
    assert DeltaTable(delivered.table).transaction_version(application) == load_newest(delivered.home).tick


POINTS = ["manifest.linked", "publish.before", "discard.before", "tick.end", "target.open", "target.recovered"]
POINTS += ["target.commit", "target.written", "target.committed", "delivery.known", "target.compact"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_death_at_any_point(delivered: IntoDelta, point: str) -> None:
    delivered.live()
    for _ in range(3):
        delivered.feed()
        engine = delivered.engine()
        with dying_at(point) as died, silent_threads():
            run_until_death(engine, died)
        abandon(engine)
    delivered.live()
    delivered.check_delivered()


def test_two_queries_share_a_table(delivered: IntoDelta) -> None:
    delivered.into_table("other")
    delivered.live()
    delivered.live()
    delivered.check_delivered(times=2)


def test_a_table_that_was_deleted_is_created_again(delivered: IntoDelta) -> None:
    with delivered.running() as engine:
        delivered.feed()
        engine.run_once()
        before = delivered.results("plain")
        delivered.table.rename(delivered.folder / "moved")
        delivered.feed()
        engine.run_once()
        eventually(delivered.table.exists)
    delivered.check()
    assert delivered.in_table() == delivered.results("plain") - before


def test_a_table_whose_columns_were_changed_suspends_the_query(delivered: IntoDelta) -> None:
    with delivered.running() as engine:
        delivered.feed()
        engine.run_once()
        delivered.table.rename(delivered.folder / "moved")
        DeltaTable.create(delivered.table, pa.schema([("a", pa.string())]))
        delivered.feed()
        engine.run_once()
        eventually(lambda: delivered.is_suspended(engine))
        assert "its column a is string, not long" in delivered.reason()
    delivered.check()


Change = Callable[[IntoDelta], str]


def _other_columns(delivered: IntoDelta) -> str:
    DeltaTable.create(delivered.table, pa.schema([("a", pa.int64()), ("b", pa.int32())]))
    return f"delta '{delivered.table}'"


def _in_the_home(delivered: IntoDelta) -> str:
    return f"delta '{delivered.home}/state'"


def _in_a_source(delivered: IntoDelta) -> str:
    return f"delta '{delivered.folder}/l/results'"


REJECTED: dict[str, tuple[Change, str]] = {
    "other columns": (_other_columns, "its column b is integer, not long"),
    "in the home": (_in_the_home, "is inside the home folder"),
    "in the folder of a stream": (_in_a_source, "is in the folder that stream l reads"),
    "a URL": (lambda delivered: "delta 's3://bucket/table'", "results cannot be written to s3://bucket/table"),
    "no table": (lambda delivered: "delta", "INTO delta names no table"),
    "an unknown option": (lambda delivered: f"delta '{delivered.table}' WITH (compcat = 3)", "did you mean compact"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_what_cannot_be_delivered_is_rejected_when_it_is_added(tmp_path: Path, case: str) -> None:
    delivered = IntoDelta(tmp_path)
    change, reason = REJECTED[case]
    with delivered.running() as engine, pytest.raises((ModelError, SqlError), match=reason):
        engine.start()
        engine.sql(f"CREATE QUERY {VICTIM} INTO {change(delivered)} AS {PLAIN}")


def test_a_path_in_a_file_is_relative_to_it(tmp_path: Path) -> None:
    delivered = IntoDelta(tmp_path)
    script = tmp_path / "more.sql"
    script.write_text(f"CREATE QUERY {VICTIM} INTO delta 'table' WITH (partition_by = 'a') AS {PLAIN};")
    delivered.feed()
    with delivered.running() as engine:
        engine.sql(script.read_text(), script)
        engine.run_once()
    delivered.check_delivered()
    assert DeltaTable(delivered.table).metadata().partition_columns == ["a"]


def test_a_query_that_is_added_again_with_other_columns_is_suspended(delivered: IntoDelta) -> None:
    """What it has found cannot be written, and no column of it is left out silently."""
    delivered.live()
    before = delivered.in_table()
    with delivered.running() as engine:
        engine.drop(VICTIM)
        engine.settle(0)
        moved = delivered.table.rename(delivered.folder / "moved")
        engine.query(VICTIM, PLAIN.replace("SELECT ", "SELECT l.k AS more, "), Sink("delta", str(delivered.table)))
        moved.rename(delivered.table)
        delivered.feed()
        engine.run_once(accept=True)
        eventually(lambda: delivered.is_suspended(engine))
        assert "it has no column more" in delivered.reason()
    assert delivered.in_table() == before
