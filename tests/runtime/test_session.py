"""Spark's ports: on loopback where everything is on this machine, and for those who know the secret."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from watersmeet.session import SETTINGS, _authentication, make_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RPC_REQUEST = 3  # of Spark's frames: length, type, number, length of the body, body


def test_a_stranger_does_not_get_past_the_authentication(spark: SparkSession) -> None:
    port = int(str(spark.conf.get("spark.driver.port")))
    body = b"no message of Spark"
    frame = struct.pack(">bqi", RPC_REQUEST, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), 10) as stranger:
        stranger.sendall(struct.pack(">q", len(frame) + 8) + frame)
        stranger.settimeout(60)
        said = b""
        while len(said) < 8 or len(said) < struct.unpack(">q", said[:8])[0]:
            more = stranger.recv(1 << 16)
            if not more:
                break
            said += more
    assert b"doAuthChallenge" in said, "who does not prove to know the secret is rejected at once"
    assert b"NettyRpcHandler.internalReceive" not in said, "the message of a stranger was read"


def test_the_ports_of_the_driver_are_on_loopback(spark: SparkSession) -> None:
    java = [child for child in psutil.Process().children() if "java" in child.name()]
    listening = [c for child in java for c in child.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert listening
    assert {connection.laddr.ip.removeprefix("::ffff:") for connection in listening} == {"127.0.0.1"}


@pytest.mark.parametrize("master", ["", "local[2]", "local-cluster[1,1,1024]", "yarn", "k8s://host"])
def test_where_spark_makes_the_secret_it_is_used(master: str) -> None:
    assert _authentication(master) == {"spark.authenticate": "true"}


def test_a_standalone_cluster_has_its_own() -> None:
    assert _authentication("spark://host:7077") == {}


def test_no_secret_is_in_the_list_of_processes(spark: SparkSession) -> None:
    assert not [name for name in SETTINGS if "secret" in name]
    for child in psutil.Process().children():
        assert "secret" not in " ".join(child.cmdline())


def test_a_secret_that_a_user_sets_is_not_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: dict[str, str] = {}

    def launch(settings: dict[str, str], log: Path) -> None:
        launched.update(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr("watersmeet.session._launch_jvm", launch)
    with pytest.raises(KeyboardInterrupt):
        make_session("spark://host:7077", {"spark.authenticate.secret": "x", "spark.cores.max": "1"}, tmp_path / "log")
    assert launched["spark.cores.max"] == "1" and "spark.authenticate.secret" not in launched
