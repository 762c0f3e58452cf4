"""How a start puts together what an engine has while it runs: recovery, the first plan, the loop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from watersmeet.adapt.origins_file import recall_windows
from watersmeet.adapt.plan_keeper import PlanKeeper, first_plan
from watersmeet.control.active_queries import ActiveQueries
from watersmeet.errors import StateError
from watersmeet.home.dependencies import seal_parts
from watersmeet.home.lock import HomeLock
from watersmeet.home.manifest import Manifest
from watersmeet.home.recovery import recover, sync_published
from watersmeet.io.positions import begun_after, check_positions
from watersmeet.options import Options
from watersmeet.runtime.committer import Committer
from watersmeet.runtime.delivery import Deliveries
from watersmeet.runtime.exec.executor import Executor
from watersmeet.runtime.exec.local import LocalExecutor
from watersmeet.runtime.exec.looking import Sampler, verify
from watersmeet.runtime.exec.spark import SparkExecutor
from watersmeet.runtime.feed.feed_set import Feeds
from watersmeet.runtime.feed.stream_groups import StreamGroups
from watersmeet.runtime.loop import TickLoop
from watersmeet.runtime.outbox import Outbox
from watersmeet.runtime.release import release_all
from watersmeet.worker_check import check_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_executor(options: Options, home: Path, spark: Callable[[], SparkSession], is_given: bool) -> Executor:
    """Who executes the orders of ticks. `is_given`: the session is the user's, and may have workers that cannot."""
    if options.executor == "local":
        return LocalExecutor()
    check_workers(spark(), is_given)
    return SparkExecutor(spark(), home, options.residents, options.resident_seconds)


def open_home(
    active: ActiveQueries, executor: Executor, deliveries: Deliveries, spark: Callable[[], SparkSession], lock: HomeLock
) -> tuple[TickLoop, Feeds, PlanKeeper, Outbox]:
    """Recover the home, and connect all that runs on it. No tick runs before its feeds are started."""
    pipeline, queries = active.pipeline, active.queries
    home, options, streams = pipeline.home, pipeline.options, tuple(pipeline.streams.values())
    folders = [pipeline.folder_of(query) for query in queries]
    checks = (functools.partial(verify, executor), check_positions)
    manifest = recover(home, folders, checks, begun_after)
    unsynced = _published(home, manifest)
    if manifest.waiting:
        manifest, lost = _released(active, manifest, executor, lock)
        unsynced |= lost
    groups = StreamGroups(home)
    groups.join(streams)
    seal_parts(home)
    manifest = replace(manifest, tag=active.log_edits())
    troubled = active.prepare_all(manifest)
    sample = Sampler(executor, home, manifest)
    remembered = recall_windows(home, pipeline.query)
    plan, unplanned = first_plan(home, manifest, streams, queries, options, sample=sample, remembered=remembered)
    loop = TickLoop(home, manifest, plan, executor, options.stop_seconds)
    feeds = Feeds(loop, groups, options, spark)
    for name, reason in {**unsynced, **troubled, **unplanned}.items():
        loop.suspend(name, reason)
    deliveries.connect(executor, spark, lambda: active.pipeline.queries, loop.suspend, lambda: loop.manifest)
    outbox = Outbox(home, executor, loop.suspend, options.max_outbox_ticks)
    loop.delivered, loop.check_lock = outbox.delivered, lock.check
    loop.delay.seconds, loop.delay.takers = options.delay, deliveries.takers
    keeper = PlanKeeper(loop, plan, options, active.changing)
    loop.observers += [outbox, deliveries, keeper.follower]
    return loop, feeds, keeper, outbox


def _released(
    active: ActiveQueries, manifest: Manifest, executor: Executor, lock: HomeLock
) -> tuple[Manifest, dict[str, str]]:
    """What waited when the engine was killed becomes files, before a query of it may be declared as another one."""
    home, options = active.pipeline.home, active.pipeline.options
    committer = Committer(home, manifest)
    try:
        lock.check()
        return release_all(manifest, executor, committer, options.durability == "power", active.queries)
    finally:
        committer.close()


def _published(home: Path, manifest: Manifest) -> dict[str, str]:
    """The queries whose newest results cannot be forced to disk, and why. A disk of the home that fails is an error."""
    try:
        return sync_published(home, manifest)
    except OSError as problem:
        raise StateError(
            f"the newest results in {home} cannot be forced to disk: {problem.strerror}",
            detail=f"{problem.filename or home}",
            hint="check the disk, and start again with the same home, or with a copy of it on another disk",
        ) from None
