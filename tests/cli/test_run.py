"""`run` and `demo` with a real Spark, against what DuckDB says about the same files."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.cli.conftest import Command
from tests.support.processes import watersmeet_run
from tests.support.waiting import PATIENCE, eventually, join
from watersmeet.cli.demo import show
from watersmeet.cli.sample_project import write_sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS, PAYMENTS, SHIPMENTS = (f"read_csv('data/{name}/*.csv')" for name in ("orders", "payments", "shipments"))
SHOP = {
    "big_orders": f"""
        SELECT o.id, o.customer, o.product, o.amount::DOUBLE, p.method, p.at FROM {ORDERS} o, {PAYMENTS} p
        WHERE o.id = p.order_id AND o.amount >= 200 AND abs(epoch(o.at) - epoch(p.at)) <= 1800""",
    "delivered": f"""
        SELECT o.id, o.product, p.method, s.carrier, o.at, s.at FROM {ORDERS} o, {PAYMENTS} p, {SHIPMENTS} s
        WHERE o.id = p.order_id AND o.id = s.order_id
        AND epoch(greatest(o.at, p.at, s.at)) - epoch(least(o.at, p.at, s.at)) <= 7200""",
    "paid_twice": f"""
        SELECT c.order_id, c.amount::DOUBLE, c.at, v.at FROM {PAYMENTS} c, {PAYMENTS} v
        WHERE c.order_id = v.order_id AND c.method = 'card' AND v.method = 'voucher'
        AND abs(epoch(c.at) - epoch(v.at)) <= 3600""",
}
FOUND = {
    "big_orders": "SELECT id, customer, product, amount::DOUBLE, method, paid_at::TIMESTAMP"
    " FROM read_csv('results/big_orders/*.csv')",
    "delivered": "FROM 'home/results/delivered/*.parquet'",
    "paid_twice": "SELECT order_id, amount::DOUBLE, * EXCLUDE (order_id, amount)"
    " FROM 'home/results/paid_twice/*.parquet'",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_sample(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def _rows(sql: str) -> Counter[tuple[str, ...]]:
    """The rows as a bag of texts, times without their zone: all of them are UTC."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return Counter(tuple(str(value).removesuffix("+00:00") for value in row) for row in rows)


def _check_shop() -> None:
    for query, oracle in SHOP.items():
        expected = _rows(oracle)
        assert expected, "a query without results would prove nothing"
        assert _rows(FOUND[query]) == expected, query


def _add_a_day() -> None:
    """More input behind what is there: a file of each stream."""
    for stream, row in (
        ("orders", "9001,7,desk,480.00"),
        ("payments", "9001,card,480.00"),
        ("shipments", "9001,Pigeon Post"),
    ):
        head = Path(f"data/{stream}/part-1.csv").read_text().splitlines()[0]
        Path(f"data/{stream}/part-9.csv").write_text(f"{head}\n{row},2026-03-03T09:00:00\n")


def test_run_once_gives_what_duckdb_gives(command: Command, shop: Path, spark: SparkSession) -> None:
    first = command("run", "pipeline.sql", "--once", "--home", "home")
    assert first.exit_code == 0, first.output
    assert "done after tick 3" in first.stdout, "one file of each stream a tick"
    assert str(shop / "results" / "big_orders") in first.stdout
    _check_shop()

    again = command("run", "pipeline.sql", "--once", "--home", "home")
    assert "done after tick 3" in again.stdout, "there is nothing new"
    _add_a_day()
    more = command("run", "pipeline.sql", "--once", "--home", "home")
    assert "done after tick 4" in more.stdout
    assert max(line.count("tick") for line in more.stdout.splitlines()) <= 2, "plain lines, one look each"
    _check_shop()

    script = Path("pipeline.sql")
    script.write_text(script.read_text().replace("o.amount >= 200", "o.amount >= 100"))
    edited = command("run", "pipeline.sql", "--once", "--home", "home")
    assert edited.exit_code == 1
    assert "query big_orders: declared differently" in edited.stderr
    assert "+ WHERE o.id = p.order_id AND o.amount >= 100" in edited.stderr
    _check_shop()
    accepted = command("run", "pipeline.sql", "--once", "--home", "home", "--accept")
    assert accepted.exit_code == 0, accepted.output
    assert not list(Path("results/big_orders").glob("0*")) and list(Path("results/big_orders/_until_tick_4").glob("0*"))
    other = command("run", "pipeline.sql", "--once", "--home", "other")
    assert other.exit_code == 1
    assert "has the results of another home" in other.stderr


def test_the_summary_names_folders_that_exist(command: Command, shop: Path, spark: SparkSession) -> None:
    script = Path("pipeline.sql")
    script.write_text(script.read_text().replace("CREATE QUERY paid_twice AS", "CREATE QUERY paid_twice INTO count AS"))
    result = command("run", "pipeline.sql", "--once", "--home", "home")
    assert result.exit_code == 0, result.output
    named = [line.split(" results in ")[1] for line in result.stdout.splitlines() if " results in " in line]
    assert len(named) == 3 and all(Path(folder).is_dir() for folder in named), result.stdout


@pytest.mark.parametrize(
    "moved",
    ["all", pytest.param("home", marks=pytest.mark.thorough), pytest.param("input", marks=pytest.mark.thorough)],
)
def test_what_was_moved_goes_on(
    command: Command, shop: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    """The project as a whole, its home, or its input to which a link leads; with a space in the name."""
    home = "home"
    assert command("run", "pipeline.sql", "--once", "--home", home).exit_code == 0
    if moved == "all":
        shop.rename(shop.parent / "an other shop")
        monkeypatch.chdir(shop.parent / "an other shop")
    elif moved == "home":
        Path("home").rename("an other home")
        home = "an other home"
    else:
        Path("else where").mkdir()
        Path("data").rename("else where/data")
        script = Path("pipeline.sql")
        script.write_text(script.read_text().replace("'data/", "'else where/data/"))
    accept = ("--accept",) if moved == "input" else ()  # the declaration has another path
    again = command("run", "pipeline.sql", "--once", "--home", home, *accept)
    assert again.exit_code == 0, again.output
    assert "done after tick 3" in again.stdout, "there is nothing new"
    Path("else where").mkdir(exist_ok=True)
    if moved == "input":
        Path("data").symlink_to("else where/data")
    _add_a_day()
    more = command("run", "pipeline.sql", "--once", "--home", home)
    assert more.exit_code == 0 and "done after tick 4" in more.stdout, more.output
    if moved == "home":
        Path("an other home").rename("home")
    _check_shop()


def test_other_input_of_the_same_names_is_rejected(command: Command, shop: Path, spark: SparkSession) -> None:
    assert command("run", "pipeline.sql", "--once", "--home", "home").exit_code == 0
    shutil.copytree("data", "new/data", copy_function=shutil.copyfile)
    script = Path("pipeline.sql")
    script.write_text(script.read_text().replace("'data/", "'new/data/"))
    again = command("run", "pipeline.sql", "--once", "--home", "home", "--accept")
    assert again.exit_code == 1
    assert f"was read from {shop}/data/orders, and is now in {shop}/new/data/orders" in again.stderr


def test_a_failing_run_explains_itself(command: Command, shop: Path, spark: SparkSession) -> None:
    Path("pipeline.sql").write_text(Path("pipeline.sql").read_text().replace("data/orders", "data/gone"))
    result = command("run", "pipeline.sql", "--once", "--home", "home")
    assert result.exit_code == 1
    assert str(shop / "data" / "gone") in result.stderr
    assert "Traceback" not in result.output


def test_sigterm_ends_after_the_tick_and_the_next_run_goes_on(
    command: Command, shop: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(Path("tmp").absolute()))
    with watersmeet_run("pipeline.sql", "--home", "home", log=Path("run.log")) as run:
        eventually(lambda: run.has_ended or any(line.startswith("tick") for line in run.said()))
        code = run.terminate()
    said = run.said()
    assert code == 0, said
    assert not [*Path("tmp").rglob("*.sock"), *Path("tmp").glob("watersmeet-*")], "sockets are left"
    assert any(line.startswith("stopped after tick") for line in said), said
    assert not [line for line in said if "WARN" in line or "nanobind" in line or "Exception" in line], said
    assert Path("home/spark.log").exists()

    _add_a_day()
    result = command("run", "pipeline.sql", "--once", "--home", "home")
    assert result.exit_code == 0, result.output
    _check_shop()


def test_demo(command: Command, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "CATCH_UP", PATIENCE)
    home = tmp_path / "demo"
    result = command("demo", "--seconds", "2", "--rate", "500", "--home", home)
    assert result.exit_code == 0, result.output
    assert "latency p50" in result.stdout
    assert "import duckdb" in result.stdout
    bids = f"'{home}/input/bids/*.parquet'"
    jumps = f"""
        SELECT low.auction, low.price, high.price FROM {bids} low, {bids} high
        WHERE low.auction = high.auction AND low.price < 200 AND high.price > 50000000
        AND abs(epoch_us(low.at) - epoch_us(high.at)) <= 5000000"""
    expected = _rows(jumps)
    assert expected
    assert _rows(f"SELECT auction, low_price, high_price FROM '{home}/home/results/jumps/*.parquet'") == expected


def test_ctrl_c_ends_the_demo_early(command: Command, tmp_path: Path, spark: SparkSession) -> None:
    over = threading.Event()

    def interrupt() -> None:
        fed = tmp_path / "demo" / "input" / "bids" / "000003.parquet"
        while not over.wait(0.1):
            if fed.exists():
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    try:
        result = command("demo", "--seconds", "600", "--rate", "100", "--home", tmp_path / "demo")
    finally:
        over.set()
        join(watcher)
    assert result.exit_code == 0, result.output
    assert "Results:" in result.stdout
