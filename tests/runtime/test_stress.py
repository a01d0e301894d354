"""Eight threads and eight tasks do everything at once for some seconds: no wrong number, no leak, no deadlock.

GLA_STRESS_SECONDS makes it longer. Each worker keeps its own expectation in NumPy, of the same operations.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
import time
import traceback
from collections import Counter

import numpy as np
import pytest

import gla
from gla.array import engine

SECONDS = float(os.environ.get("GLA_STRESS_SECONDS", "2.5"))
THREADS = TASKS = 8


class Worker:
    """One thread's or task's share. `graphs`: (executable, input, output, NumPy's input, NumPy's output)."""

    def __init__(self, seed: int, done: Counter) -> None:
        self.random, self.done = random.Random(seed), done
        self.graphs: list[list] = []

    def step(self) -> None:
        name = self.random.choice(
            ("capture", "replay", "replay", "update", "free", "collect", "copy", "compile", "loop", "product")
        )
        getattr(self, name)(self.random.choice((3, 17, 64, 256)))
        self.done[name] += 1

    def capture(self, n: int) -> None:
        values = np.linspace(0, self.random.random(), n)
        x, y = gla.asarray(values), gla.zeros(n)
        graph = gla.capture(lambda: y.assign(gla.sin(x) + y * 0.5))
        self.graphs.append([graph.instantiate(), x, y, values, np.zeros(n)])
        if len(self.graphs) > 5:
            self.graphs.pop(self.random.randrange(5))

    def replay(self, n: int) -> None:
        if self.graphs:
            entry = self.random.choice(self.graphs)
            for _ in range(self.random.randrange(1, 5)):
                entry[0]()
                entry[4] = np.sin(entry[3]) + entry[4] * 0.5
            if self.random.random() < 0.5:
                np.testing.assert_allclose(entry[2].numpy(), entry[4], rtol=1e-13, atol=1e-15)

    def update(self, n: int) -> None:
        if self.graphs:
            entry = self.random.choice(self.graphs)
            exe, _, y, values, _ = entry
            new = values + 1
            x = gla.asarray(new)
            assert exe.update(gla.capture(lambda: y.assign(gla.sin(x) + y * 0.5)))
            entry[1], entry[3] = x, new

    def free(self, n: int) -> None:
        x = gla.asarray(np.full(n, 3.0))
        total = gla.sum(x + 1)
        x.free()
        assert float(total) == 4.0 * n

    def collect(self, n: int) -> None:
        cycle: list = [gla.ones(n), gla.asarray(np.ones(n)) + 1]
        cycle[1].numpy()
        cycle.append(cycle)
        del cycle
        gc.collect()
        if self.random.random() < 0.2:
            gla.reclaim()

    def copy(self, n: int) -> None:
        values = np.random.default_rng(self.random.randrange(99)).normal(size=(n, 3))
        x = gla.asarray(values)
        np.testing.assert_array_equal((x[1:] * 2).numpy(), values[1:] * 2)

    def compile(self, n: int) -> None:
        factor = self.random.randrange(10**6) / 7
        f, values = gla.function(lambda v: v * factor + gla.cos(v)), np.linspace(0, 1, n)
        np.testing.assert_allclose(f(gla.asarray(values)).numpy(), values * factor + np.cos(values), rtol=1e-13)

    def loop(self, n: int) -> None:
        x = gla.asarray(np.zeros(n))
        for _ in range(20):
            x = STEP(x)
        np.testing.assert_allclose(x.numpy(), 2 - 2 * 0.5**20, rtol=1e-13)

    def product(self, n: int) -> None:
        a = np.random.default_rng(n).normal(size=(8, 8))
        x = gla.asarray(a)
        np.testing.assert_allclose((x @ gla.sin(x)).numpy(), a @ np.sin(a), rtol=1e-9, atol=1e-12)


STEP = gla.function(lambda v: v * 0.5 + 1)


def everything_at_once(name: str, seconds: float, seed: int) -> tuple[Counter, list[str]]:
    """(what was done, tracebacks)."""
    done: Counter = Counter()
    wrong: list[str] = []
    end = time.monotonic() + seconds

    def in_thread(number: int) -> None:
        worker = Worker(number, done)
        try:
            with gla.device(name):
                while time.monotonic() < end:
                    worker.step()
        except BaseException:
            wrong.append(traceback.format_exc())

    async def in_task(number: int) -> None:
        worker = Worker(number, done)
        try:
            with gla.device(name):
                while time.monotonic() < end:
                    worker.step()
                    await asyncio.sleep(0)
        except BaseException:
            wrong.append(traceback.format_exc())

    async def tasks() -> None:
        await asyncio.gather(*(in_task(seed + k) for k in range(TASKS)))

    threads = [threading.Thread(target=in_thread, args=(seed + 100 + k,), daemon=True) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    asyncio.run(tasks())
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    return done, wrong


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_stress_eight_threads_and_eight_tasks(name, caplog):
    machine = engine.machine(name)
    STEP(gla.zeros(3)).numpy()
    gc.collect()
    gla.reclaim()
    start, kept = gla.memory(), len(machine.gate.failed)
    done, wrong = everything_at_once(name, SECONDS, seed=1)
    assert not wrong, wrong[0]
    assert set(done) >= {"capture", "replay", "update", "free", "collect", "copy", "compile", "loop", "product"}, done
    gc.collect()
    gla.reclaim()
    end = gla.memory()
    assert (end["in_use"], end["cached"], end["leased"]) == (start["in_use"], 0, start["leased"])
    assert machine.gate.captures == 0 and len(machine.gate.failed) == kept and not caplog.records
