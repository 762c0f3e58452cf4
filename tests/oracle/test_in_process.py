"""Hundreds of random cases against DuckDB, through every part of the engine but Spark."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.answers import check_answers
from tests.support.cases import Case, cases
from tests.support.examples import examples
from tests.support.in_process import InProcess
from tests.support.plans import no_indexes
from watersmeet.home.counters import Reason
from watersmeet.store.bucket_file import verify_file


def run_case(case: Case, home: Path) -> InProcess:
    engine = InProcess(home, case)
    for tick in range(case.ticks):
        if tick in case.restarts:
            engine.restart()
        engine.tick(case.pieces(tick))
        engine.rules.validate()
        for bucket in engine.manifest.buckets:
            verify_file(home, bucket)
    return engine


@given(cases())
@settings(max_examples=examples(80))
def test_random_queries_give_the_oracles_results(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = run_case(case, Path(folder))
        assert not any(reason is Reason.LATE for reason, _ in engine.manifest.totals.set_aside)
        check_answers(case, Path(folder))


@given(cases(max_streams=3, max_queries=4, max_rows=12), st.randoms(use_true_random=False))
@settings(max_examples=examples(25))
def test_ticks_of_one_row_and_one_tick_for_all_give_the_same(case: Case, random: Random) -> None:
    arrivals = [stream.name for stream in case.streams for _ in range(stream.rows.num_rows)]
    random.shuffle(arrivals)

    def cuts(name: str) -> tuple[int, ...]:
        """After each arrival, how many rows of the stream have come."""
        return tuple(arrivals[: tick + 1].count(name) for tick in range(len(arrivals)))

    one_by_one = tuple(replace(stream, cuts=cuts(stream.name)) for stream in case.streams)
    at_once = tuple(replace(stream, cuts=()) for stream in case.streams)
    for streams in (one_by_one, at_once):
        for partitions in (1, 3):
            other = replace(case, streams=streams, partitions=partitions)
            with tempfile.TemporaryDirectory() as folder:
                run_case(other, Path(folder))
                check_answers(other, Path(folder))


@given(cases(max_queries=5))
@settings(max_examples=examples(40))
def test_stores_without_indexes_give_the_oracles_results(case: Case) -> None:
    with no_indexes(), tempfile.TemporaryDirectory() as folder:
        engine = run_case(case, Path(folder))
        assert not any(rule.keys for rule in engine.rules.probed)
        check_answers(case, Path(folder))


@given(cases(max_rows=25, max_queries=5))
@settings(max_examples=examples(40))
def test_keys_whose_hashes_all_collide_give_the_oracles_results(case: Case) -> None:
    """Different values with equal codes are told apart by value before a result leaves."""

    def constant(*codes: np.ndarray) -> np.ndarray:
        return np.zeros(len(codes[0]), np.int64)

    with (
        mock.patch("watersmeet.store.codes._encode_bytes", constant),
        mock.patch("watersmeet.store.codes.mix_codes", constant),
        tempfile.TemporaryDirectory() as folder,
    ):
        run_case(case, Path(folder))
        check_answers(case, Path(folder))
