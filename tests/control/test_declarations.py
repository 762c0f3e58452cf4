"""A pipeline that is edited between two starts on one home: what changed is shown, logged, and has to be accepted."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.support.commands import command
from tests.support.deaths import Died, silent_threads, subscribed
from tests.support.inside import abandon, opened, run_feeds
from tests.support.two_streams import create, write
from watersmeet import Engine, Sink
from watersmeet.control.change_log import read_entries
from watersmeet.control.stats import stats_of_home
from watersmeet.errors import StateError
from watersmeet.home import layout
from watersmeet.sql import same_text

JOIN = "SELECT l.id AS a, r.id AS b FROM l [UNBOUNDED], r [UNBOUNDED] WHERE l.k = r.k"
OTHER = JOIN.replace("l.k = r.k", "l.k = r.k AND l.id > 1")
WIDER = JOIN.replace("r.id AS b", "r.id AS b, l.k AS k")


class World:
    """A home and its input; each run is another process's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.rows = 0
        self.streams = "".join(create(name, folder / name) for name in "lr")
        for name in "lr":
            (folder / name).mkdir(exist_ok=True)

    def feed(self) -> None:
        """One more row of each stream. All rows have one key."""
        self.rows += 1
        for name in "lr":
            write(self.folder / name, [(1, self.rows, 7)])

    def declared(self, script: str) -> Engine:
        engine = Engine(home=self.home, executor="local", adaptive="off")
        engine.sql(self.streams + script)
        return engine

    def run(self, script: str, *, accept: bool = False) -> None:
        with self.declared(script) as engine:
            engine.run_once(accept=accept)

    def killed(self, script: str, point: str) -> None:
        """A run that accepts the script and is dead from that point on."""
        died = threading.Event()

        def reached(at: str, about: object) -> None:
            if died.is_set() or at == point:
                died.set()
                raise Died(at)

        engine = self.declared(script)
        with subscribed(reached), silent_threads(), contextlib.suppress(Died):
            opened(engine, accept=True)
            run_feeds(engine)
        assert died.is_set()
        abandon(engine)

    def changes(self) -> list[tuple[str, str, int]]:
        """What was logged of queries since the first start."""
        return [(one.kind, one.name, one.tick) for one in read_entries(self.home) if one.kind != "stream"]

    def results(self, folder: str = "home/results/q") -> int:
        files = list((self.folder / folder).glob("0*.parquet"))
        return len(duckdb.read_parquet([str(file) for file in files]).fetchall()) if files else 0

    def since(self) -> dict[str, int]:
        return {query.name: query.since for query in stats_of_home(self.home).queries}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.feed()
    made.run(f"CREATE QUERY q AS {JOIN};")
    made.feed()
    yield made


def edited(text: str, *options: str) -> str:
    return f"CREATE QUERY q {' '.join(options)} AS {text};"


def test_the_first_start_logs_what_is_declared(world: World) -> None:
    assert [(one.kind, one.name, one.declared) for one in read_entries(world.home)] == [
        ("add", "q", True),
        ("stream", "l", True),
        ("stream", "r", True),
    ]
    assert stats_of_home(world.home).deployments == (), "nobody has waited for it"
    assert stats_of_home(world.home).queries[0].latency is None


@pytest.mark.parametrize("text", [OTHER, WIDER])
def test_a_changed_query_is_shown_and_has_to_be_accepted(
    world: World, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = (world.home / layout.CHANGES).read_bytes()
    with pytest.raises(StateError, match="query q: declared differently than at the last start") as caught:
        world.run(edited(text))
    assert f"- {JOIN}" in caught.value.detail
    assert f"+ {text}" in caught.value.detail
    assert "--accept" in caught.value.hint
    assert (world.home / layout.CHANGES).read_bytes() == before
    assert stats_of_home(world.home).tick == 1
    assert world.results() == 1
    with caplog.at_level(logging.WARNING):
        world.run(edited(text), accept=True)
    assert "changed: query q" in caplog.text and f"+ {text}" in caplog.text
    assert world.changes() == [("add", "q", 1), ("drop", "q", 2), ("add", "q", 2)]
    assert world.since() == {"q": 2}
    # Those of the old definition are beside, and readers of the folder do not see them.
    assert world.results("home/results/q/_until_tick_1") == 1
    assert world.results() == 3 - (text == OTHER), "2 rows of l and r; those of tick 1 alone are not new"
    assert stats_of_home(world.home).queries[0].results == world.results()
    caplog.clear()
    world.run(edited(text))
    assert not caplog.text
    assert world.since() == {"q": 2}


def test_results_that_were_put_aside_are_not_missed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.run(f"CREATE QUERY q AS {JOIN};")
    world.run(edited(OTHER), accept=True)  # without new input: no tick has obeyed it yet
    assert [(one.since, one.in_force, one.results) for one in stats_of_home(world.home).queries] == [(3, False, 0)]
    world.run(edited(OTHER))
    assert "missing" not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        JOIN.replace(" ", "\n\t "),
        JOIN.replace(" FROM", " -- why\n FROM /* and how */"),
        JOIN.replace("SELECT", "select").replace("WHERE", "Where").replace(" AS ", " as "),
        JOIN + " ",
    ],
)
def test_comments_white_space_and_case_of_words_are_no_change(world: World, text: str) -> None:
    world.run(edited(text))
    assert world.changes() == [("add", "q", 1)]
    assert world.since() == {"q": 1}
    assert world.results() == 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("l.id AS a", "l.id AS A"),
        ("l.id AS a", "l.id AS `a`"),
        ("l.k = r.k", "l.k = r.k AND l.id < 10L"),
        ("l.k = r.k", r"l.k = r.k AND CAST(l.id AS STRING) RLIKE r'\d'"),
    ],
)
def test_what_changes_results_or_their_names_is_a_change(world: World, before: str, after: str) -> None:
    world.run(edited(JOIN.replace(before, after)), accept=True)
    assert [change[0] for change in world.changes()] == ["add", "drop", "add"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM s WHERE a < 10L", "SELECT a FROM s WHERE a < 10D"),
        ("SELECT a FROM s WHERE a < 1.5BD", "SELECT a FROM s WHERE a < 1.5D"),
        (r"SELECT a FROM s WHERE a RLIKE r'\d'", r"SELECT a FROM s WHERE a RLIKE r'\D'"),
        ("SELECT a AS left FROM s", "SELECT a AS Left FROM s"),
        ("SELECT a Total FROM s", "SELECT a total FROM s"),
    ],
)
def test_texts_of_other_meaning_are_not_the_same(one: str, other: str) -> None:
    assert not same_text(one, other)
    assert same_text(one, one.replace("SELECT", "select").replace(" WHERE", "\n  where"))


def test_backfill_is_about_the_first_tick_only(world: World) -> None:
    world.run(edited(JOIN, "BACKFILL"))
    assert world.changes() == [("add", "q", 1)]
    assert world.results() == 4


def test_queries_that_are_added_and_dropped_are_shown_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        world.run(f"CREATE QUERY p AS {JOIN};")
    assert "added: query p" in caplog.text and "dropped: query q" in caplog.text
    assert world.changes()[1:] == [("add", "p", 2), ("drop", "q", 2)]
    assert world.since() == {"p": 2}
    assert world.results() == 1, "what a dropped query has found stays"
    world.feed()
    world.run(f"CREATE QUERY p AS {JOIN}; CREATE QUERY q AS {OTHER};")  # nobody asks: there is no q
    assert world.changes()[3:] == [("add", "q", 3)]
    assert world.results("home/results/q/_until_tick_2") == 1
    assert world.results() == 2 * 3 - 2, "rows 2 and 3 of l with all of r, but for those of l and r before tick 3"


def test_another_target_is_a_change(world: World) -> None:
    out = world.folder / "out"
    for options in (f"INTO parquet '{out}'", f"INTO json '{out}'", f"INTO csv '{out}' WITH (sep = ';')"):
        with pytest.raises(StateError, match="query q: declared differently") as caught:
            world.run(edited(JOIN, options))
        assert f"+ INTO {options.split()[1]} '{out}'" in caught.value.detail
        world.run(edited(JOIN, options), accept=True)
        world.run(edited(JOIN, options))
        world.feed()
    assert world.results() == 1
    assert {path.suffix for path in out.glob("0*")} == {".csv"}
    kinds = {path.parent.name: path.suffix for path in out.glob("_until*/0*")}
    assert set(kinds.values()) == {".parquet", ".json"}


def test_a_dropped_query_stays_dropped_until_its_text_changes(world: World) -> None:
    with world.declared(edited(JOIN)) as engine:
        engine.start()
        engine.drop("q")
    world.run(edited(JOIN))
    assert world.since() == {}
    with pytest.raises(StateError, match="query q: declared differently"):
        world.run(edited(OTHER))
    world.run(edited(OTHER), accept=True)
    assert set(world.since()) == {"q"}
    world.run("")
    assert world.since() == {}
    world.run(edited(JOIN))
    assert set(world.since()) == {"q"}, "it was taken out of the pipeline, and is in it again"


def test_a_query_that_was_added_by_request_and_then_declared(world: World) -> None:
    with world.declared(edited(JOIN)) as engine:
        engine.start()
        since = engine.query("p", JOIN).since
    both = edited(JOIN) + "CREATE QUERY p AS {};"
    with pytest.raises(StateError, match="query p: declared differently"):
        world.run(both.format(OTHER))
    world.run(both.format(JOIN))
    assert world.since()["p"] <= since, "it goes on"
    world.run(edited(JOIN))
    assert set(world.since()) == {"q"}, "now it belongs to the pipeline"


def test_a_query_that_was_replaced_by_request(world: World) -> None:
    """The running one counts: the pipeline may say the same then, and no longer having it does not drop it."""
    with world.declared(edited(JOIN)) as engine:
        engine.start()
        engine.drop("q")
        since = engine.query("q", OTHER).since
    world.run(edited(JOIN))
    assert [query.sql for query in stats_of_home(world.home).queries] == [OTHER]
    world.run("")
    assert [query.sql for query in stats_of_home(world.home).queries] == [OTHER]
    world.run(edited(OTHER))
    world.run(edited(OTHER))
    assert world.since()["q"] <= since


def test_a_stopped_engine_is_a_declaration_again(world: World) -> None:
    with world.declared(edited(JOIN)) as engine:
        engine.start()
        engine.query("p", JOIN)
        engine.stop()
        engine.drop("p")
        engine.query("x", JOIN)
        engine.run_once()
        assert {handle.name for handle in engine.queries} == {"q", "x"}
        engine.stop()
        engine.run_once()
        assert {handle.name for handle in engine.queries} == {"q", "x"}
    world.run(edited(JOIN) + f"CREATE QUERY x AS {JOIN};")
    assert set(world.since()) == {"q", "x"}
    assert [name for kind, name, _ in world.changes()] == ["q", "p", "x", "p"]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("LATENESS INTERVAL '1' SECOND", "LATENESS 2 SECONDS", "+ LATENESS 2 SECONDS"),
        ("FROM parquet '", "RETAIN 1 HOUR FROM parquet '", "+ RETAIN 3600 SECONDS"),
        ("/l'", "/other'", "/other'"),
    ],
)
def test_a_changed_stream_has_to_be_accepted(world: World, before: str, after: str, shown: str) -> None:
    (world.folder / "other").mkdir()
    first, rest = world.streams.split(";", 1)
    world.streams = f"{first.replace(before, after)};{rest}"
    with pytest.raises(StateError, match="stream l: declared differently") as caught:
        world.run(edited(JOIN))
    assert shown in caught.value.detail
    world.run(edited(JOIN), accept=True)
    world.run(edited(JOIN))
    assert world.since() == {"q": 1}, "the query is the same"
    assert [one.name for one in read_entries(world.home) if one.kind == "stream"] == ["l", "r", "l"]


def test_how_much_a_tick_reads_is_no_change_of_a_stream(world: World) -> None:
    world.streams = world.streams.replace("';", "' WITH (maxFilesPerTrigger = 7);").replace(
        "' ;", "' WITH (maxFilesPerTrigger = 7);"
    )
    assert "maxFilesPerTrigger" in world.streams
    world.run(edited(JOIN))
    assert world.results() == 4


def test_a_folder_that_is_moved_with_its_home_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    world = World(tmp_path / "here")
    world.feed()
    script = "CREATE QUERY q INTO parquet '{}/out' AS " + JOIN + ";"
    world.run(script.format(world.folder))
    world.folder.rename(tmp_path / "there")
    moved = World(tmp_path / "there")
    moved.rows = 1
    moved.run(script.format(moved.folder))
    assert [kind for kind, *_ in moved.changes()] == ["add"]


def test_killed_at_any_point_the_change_is_made_once(tmp_path: Path) -> None:
    """What was accepted is logged before the first tick, and is not asked for again."""
    for at, point in enumerate(
        ("positions.before", "tick.begin", "manifest.draft", "manifest.linked", "publish.before")
    ):
        (tmp_path / str(at)).mkdir()
        world = World(tmp_path / str(at))
        world.feed()
        world.run(edited(JOIN, "BACKFILL"))
        world.feed()

        world.killed(edited(OTHER, "BACKFILL"), point)
        logged = world.changes()
        assert logged == [("add", "q", 1), ("drop", "q", 2), ("add", "q", 2)]
        world.run(edited(OTHER, "BACKFILL"))  # it was accepted, and it is logged
        assert world.changes() == logged
        assert world.since() == {"q": 2}
        assert world.results() == 2, "all that OTHER finds, once"
        assert world.results("home/results/q/_until_tick_1") == 1


def test_a_log_that_is_torn_between_drop_and_add(world: World) -> None:
    world.run(edited(OTHER), accept=True)
    log = world.home / layout.CHANGES
    manifest = max((world.home / "manifests").glob("*.json"))
    assert json.loads(manifest.read_text().splitlines()[1])["tick"] == 2
    manifest.unlink()  # as if the tick had not been committed
    (world.home / layout.TICKS).unlink()
    for file in (world.home / "results" / "q").glob("0*2-*"):
        file.unlink()
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert world.changes()[-1] == ("drop", "q", 2)
    world.run(edited(OTHER))  # it was accepted
    assert world.since() == {"q": 2}
    assert world.results() == 2


def test_a_home_of_an_earlier_version(world: World) -> None:
    """Its log has no declarations; what it last answered is in `queries.json`."""
    (world.home / layout.CHANGES).unlink()
    manifest = max((world.home / "manifests").glob("*.json"))
    head, body = manifest.read_text().splitlines()
    old = {**json.loads(body), "changes": None}
    body = json.dumps(old)
    manifest.write_text(json.dumps({**json.loads(head), "checksum": zlib.crc32(body.encode())}) + "\n" + body)
    with pytest.raises(StateError, match="query q: declared differently"):
        world.run(edited(OTHER))
    (world.home / layout.QUERIES).write_text("{")  # then nobody knows what it was
    world.run(edited(JOIN, "BACKFILL"))
    assert world.since() == {"q": 1}
    assert world.results() == 4, "nothing is repeated"
    assert world.changes() == [("add", "q", 1)]


def test_from_the_command_line(world: World) -> None:
    file = world.folder / "pipeline.sql"
    file.write_text(world.streams + edited(OTHER))
    run = ("run", file, "--once", "--home", world.home, "--set", "executor=local", "--set", "adaptive=off")
    rejected = command(*run)
    assert rejected.exit_code == 1
    assert f"+ {OTHER}" in rejected.output and "--accept" in rejected.output
    accepted = command(*run, "--accept")
    assert accepted.exit_code == 0, accepted.output
    assert world.since() == {"q": 2}


def test_a_python_sink_is_compared_too(world: World) -> None:
    engine = world.declared("")
    engine.query("q", JOIN, Sink("json"))
    with pytest.raises(StateError, match="query q: declared differently"):
        engine.start()
