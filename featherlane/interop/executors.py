"""Executors of chunks of states: threads, processes, or a cluster with a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from featherlane.backends.cores import physical_cores
from featherlane.errors import shown
from featherlane.functions.arguments import counted
from featherlane.interop.wrapped import required

AHEAD = 2  # calls for each thread of a worker that are handed out: one to run, one to come


class ChunkExecutor(NamedTuple):
    """An executor, and how many calls it runs at once."""

    executor: Executor
    at_once: int

    def results(self, run: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yields run(*call) for each call, in the order in which they end. Few calls are handed
        out at a time, so that a run of a million chunks needs no more memory than a short one.
        Raises the first error of any call.
        """
        rest, running = iter(calls), set[Future[Any]]()
        try:
            while True:
                for call in rest:
                    running.add(self.executor.submit(run, *call))
                    if len(running) >= AHEAD * self.at_once:
                        break
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()


def check_scheduler(scheduler: Any, workers: int | None) -> None:
    """Raises ValueError for what `executor_of` does not take, without starting anything."""
    if workers is not None:
        counted("workers", workers)
    if scheduler in ("threads", "processes"):
        return
    distributed = required("distributed", "dask")
    is_address = isinstance(scheduler, str) and ":" in scheduler
    if not is_address and not isinstance(scheduler, distributed.Client):
        raise ValueError(
            f"scheduler is {shown(scheduler)}: wanted 'threads', 'processes', an address such as "
            "tcp://host:8786, or a distributed.Client"
        )


@contextmanager
def executor_of(scheduler: Any, workers: int | None) -> Iterator[ChunkExecutor]:
    """The executor that `scheduler` names, with so many threads or processes: "threads",
    "processes", the address of a Dask scheduler, or a `distributed.Client`. Raises ValueError for
    anything else.
    """
    check_scheduler(scheduler, workers)
    count = workers or physical_cores()
    if scheduler == "threads":
        executor = ThreadPoolExecutor(count)
        try:
            yield ChunkExecutor(executor, count)
        finally:
            executor.shutdown(cancel_futures=True)
        return
    distributed = required("distributed", "dask")
    with ExitStack() as stack:
        if isinstance(scheduler, distributed.Client):
            client = scheduler
        elif scheduler == "processes":  # Dask's: it replaces one that was killed
            # Its page of diagnostics would be open to other machines, if no host were named
            options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
            cluster = stack.enter_context(distributed.LocalCluster(n_workers=count, **options))
            client = stack.enter_context(distributed.Client(cluster))
        else:
            client = stack.enter_context(distributed.Client(scheduler))
        try:
            yield _of_client(client)
        except distributed.KilledWorker as error:  # by one chunk after the other, as without memory
            raise RuntimeError(f"workers have died again and again: {error}") from error


def _of_client(client: Any) -> ChunkExecutor:
    return ChunkExecutor(client.get_executor(pure=False), max(sum(client.nthreads().values()), 1))
