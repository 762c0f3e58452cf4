"""Where INTO may lead: never into a home, an input or the folder of another query, however it is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet import Sink, Stream
from watersmeet.errors import ModelError
from watersmeet.home.lock import home_lock
from watersmeet.options import Options
from watersmeet.pipeline import Pipeline

STREAM = "CREATE STREAM {0} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM {1} '{2}';"
JOIN = "SELECT a.k AS x FROM s [UNBOUNDED] a, s [UNBOUNDED] b WHERE a.k = b.k"


class Declared:
    """A pipeline with a stream, to which queries are added."""

    def __init__(self, folder: Path, into_roots: str = "") -> None:
        (folder / "input" / "deep").mkdir(parents=True, exist_ok=True)
        self.folder = folder
        empty = Pipeline(Options(into_roots=into_roots), folder / "home")
        self.pipeline = empty.with_stream(self.reading("s", folder / "input"))

    def reading(self, name: str, path: Path, kind: str = "parquet") -> Stream:
        return Pipeline.read(STREAM.format(name, kind, path)).streams[name]

    def add(self, name: str, path: object, kind: str = "parquet") -> None:
        self.pipeline = self.pipeline.with_query(self.pipeline.query(name, JOIN, Sink(kind, str(path))))

    def rejected(self, path: object, why: str, kind: str = "parquet") -> ModelError:
        with pytest.raises(ModelError, match=why) as caught:
            self.add("bad", path, kind)
        return caught.value


@pytest.fixture
def declared(tmp_path: Path) -> Declared:
    return Declared(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
@pytest.mark.parametrize(
    "path", ["", "/state/s", "/control/inbox", "/results", "/manifests", "/x", "/results/../state"]
)
def test_a_home_is_not_for_results(declared: Declared, path: str, kind: str) -> None:
    declared.rejected(f"{declared.folder}/home{path}", "inside the home folder", kind)


def test_its_own_results_are(declared: Declared) -> None:
    declared.add("q", declared.folder / "home" / "results" / "elsewhere")
    with pytest.raises(ModelError, match="into the folder of query q"):
        declared.pipeline.with_query(declared.pipeline.query("elsewhere", JOIN))


def test_a_link_leads_into_the_home(declared: Declared) -> None:
    (declared.folder / "home" / "state").mkdir(parents=True)
    (declared.folder / "link").symlink_to(declared.folder / "home" / "state")
    declared.rejected(declared.folder / "link" / "s", "inside the home folder")


def test_a_home_that_is_reached_by_a_link(declared: Declared, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "home").symlink_to(real)
    declared.rejected(real / "state", "inside the home folder")
    declared.add("q", real / "results" / "elsewhere")
    with pytest.raises(ModelError, match="into the folder of query q"):
        declared.pipeline.with_query(declared.pipeline.query("elsewhere", JOIN))


def test_nor_is_the_home_of_another_engine(declared: Declared) -> None:
    other = declared.folder / "other"
    (other / "manifests").mkdir(parents=True)
    with home_lock(other):
        declared.rejected(other / "results" / "q", "inside the home folder")


@pytest.mark.parametrize("path", ["input", "input/deep", "input/new", "x/../input", "link/new"])
def test_an_input_is_not_for_results(declared: Declared, path: str) -> None:
    (declared.folder / "link").symlink_to(declared.folder / "input")
    problem = declared.rejected(f"{declared.folder}/{path}", "is in the folder that stream s reads")
    assert "outside" in problem.hint


@pytest.mark.parametrize(("source", "kind"), [("data/*.json", "json"), ("data/{a,b}/x", "csv"), ("data", "orc")])
def test_nor_is_what_a_pattern_reads(declared: Declared, source: str, kind: str) -> None:
    stream = declared.reading("t", declared.folder / source, kind)
    declared.pipeline = declared.pipeline.with_stream(stream)
    declared.rejected(declared.folder / "data" / "out", "is in the folder that stream t reads")


def test_a_stream_that_comes_later_does_not_read_results(declared: Declared) -> None:
    declared.add("q", declared.folder / "out")
    with pytest.raises(ModelError, match=r"query q: .* is in the folder that stream t reads"):
        declared.pipeline.with_stream(declared.reading("t", declared.folder / "out"))


def test_a_folder_beside_the_input_is_fine(declared: Declared) -> None:
    declared.add("q", declared.folder / "input-results")
    declared.add("p", declared.folder)  # the input is below it, and its files are not read


@pytest.mark.parametrize("spelling", ["out/../out", "./out/", "link", "deep/../link"])
def test_two_queries_do_not_reach_one_folder(declared: Declared, spelling: str) -> None:
    (declared.folder / "out").mkdir()
    (declared.folder / "deep").mkdir()
    (declared.folder / "link").symlink_to(declared.folder / "out")
    declared.add("q", declared.folder / "out")
    declared.rejected(f"{declared.folder}/{spelling}", "into the folder of query q")


@pytest.mark.parametrize("path", ["s3://bucket/x", "hdfs://host/x", "file:///tmp/x", "s3a:/bucket", "S3://b"])
def test_an_address_is_not_a_folder(declared: Declared, path: str) -> None:
    problem = declared.rejected(path, "cannot be written to")
    assert "foreach_tick" in problem.hint


def test_a_file_is_not_a_folder(declared: Declared) -> None:
    (declared.folder / "file").touch()
    declared.rejected(declared.folder / "file", "is not a folder")
    declared.rejected(declared.folder / "out" / "_staging", "being written")


@pytest.mark.parametrize(
    ("name", "why"),
    [("a\0b", "NUL"), ("x" * 300, "too long"), ("/".join(["x" * 200] * 25), "too long"), ("file/out", "is a file")],
)
@pytest.mark.parametrize("kind", ["parquet", "json", "delta"])
def test_a_path_that_no_folder_can_have(declared: Declared, name: str, why: str, kind: str) -> None:
    (declared.folder / "file").touch()
    problem = declared.rejected(declared.folder / name, f"results cannot be written into .*{why}", kind)
    assert "another path" in problem.hint


def test_roots(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "out").symlink_to(tmp_path / "c")
    declared = Declared(tmp_path, into_roots=f"{tmp_path}/a:{tmp_path}/b")
    declared.add("p", tmp_path / "a" / "p")
    declared.add("q", tmp_path / "b")
    declared.add("r", tmp_path / "home" / "results" / "mine")
    for path in ("c", "a/../c", "a/out", "ab"):
        problem = declared.rejected(tmp_path / path, "not below a folder into which queries may write")
        assert f"{tmp_path}/a, {tmp_path}/b" in problem.detail
