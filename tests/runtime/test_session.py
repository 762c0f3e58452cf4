"""Spark's ports: on loopback where everything is on this machine, and for those who know the secret."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import psutil
import pytest

from watersmeet.session import SETTINGS, _authentication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RPC_REQUEST = 3  # of Spark's frames: length, type, number, length of the body, body


def test_a_stranger_gets_no_answer_from_the_driver(spark: SparkSession) -> None:
    port = int(str(spark.conf.get("spark.driver.port")))
    body = b"no message of Spark"
    frame = struct.pack(">bqi", RPC_REQUEST, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), 10) as stranger:
        stranger.sendall(struct.pack(">q", len(frame) + 8) + frame)
        stranger.settimeout(20)
        said = stranger.recv(1 << 16)
    print(said)
    env = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get()  # type: ignore[union-attr]
    assert env.securityManager().isAuthenticationEnabled()
    assert len(env.securityManager().getSecretKey()) >= 32


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
    secret = str(spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().securityManager().getSecretKey())  # type: ignore[union-attr]
    for child in psutil.Process().children():
        assert secret not in " ".join(child.cmdline())
