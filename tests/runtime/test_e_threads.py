"""Guarantees E: threads and tasks beside captures, and children that record into one."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gla
from gla.array import engine, tasks
from gla.errors import CaptureError
from tests.runtime.conftest import A, N


def elsewhere(name, work):
    """The result of `work()` in a plain thread."""
    with ThreadPoolExecutor(1) as pool:

        def run():
            with gla.device(name):
                return work()

        return pool.submit(run).result(60)


def test_e1_other_threads_allocate_wait_look_and_free_meanwhile(name):
    x, y = A(np.ones(100)), A(np.zeros(100))

    def work():
        a = A(np.arange(50.0))
        b = gla.exp(a) + 1
        gla.synchronize()
        gla.current_stream().synchronize()
        found = N(b)
        a.free()
        return found

    def body():
        y.assign(x * 2)
        found.append(elsewhere(name, work))
        y.assign(y + 1)

    found = []
    graph = gla.capture(body)
    np.testing.assert_allclose(found[0], np.exp(np.arange(50.0)) + 1, rtol=1e-14)
    graph.instantiate()()
    assert N(y).tolist() == [3.0] * 100 and len(graph) == 1


def test_e1_other_tasks_too(name):
    x, order = A([1.0]), []

    async def body():
        value = x * 2
        order.append("open")
        await asyncio.sleep(0.02)
        order.append("close")
        x.assign(value)

    async def other():
        await asyncio.sleep(0.005)
        assert not gla.is_capturing()
        order.append(N(x + 1).item())
        gla.synchronize()

    async def main():
        graph, _ = await asyncio.gather(gla.capture(body), other())
        return graph

    graph = asyncio.run(main())
    assert order == ["open", 2.0, "close"]
    graph.instantiate()()
    assert N(x).tolist() == [2.0]


def test_e2_others_use_what_the_capturing_task_made_before(name):
    x, y = A(np.arange(4.0)), A(np.zeros(4))
    z = x * 3

    def body():
        y.assign(z + x)
        found.append(elsewhere(name, lambda: N(z + x)))

    found = []
    exe = gla.capture(body).instantiate()
    exe()
    assert found[0].tolist() == N(y).tolist() == [0.0, 4.0, 8.0, 12.0]


def test_e3_others_compile_meanwhile(name):
    f, x = gla.function(lambda v: gla.cos(v) * 0.123457 + gla.tanh(v)), A([0.5])

    def body():
        found.append(elsewhere(name, lambda: N(f(A([0.5, 1.0])))))
        return x + 1

    found = []
    gla.capture(body)
    np.testing.assert_allclose(found[0], np.cos([0.5, 1.0]) * 0.123457 + np.tanh([0.5, 1.0]), rtol=1e-14)


def test_e4_one_executable_from_several_threads_with_consumers_in_others(name):
    x, total, rounds = A(np.ones(1000)), A(np.zeros(1000)), 40
    exe = gla.capture(lambda: total.assign(total + x)).instantiate()
    wrong, launched = [], threading.Semaphore(0)

    def produce():
        with gla.device(name), gla.Stream():
            for _ in range(rounds):
                exe()
                launched.release()

    def consume():
        last = 0.0
        with gla.device(name), gla.Stream():
            for _ in range(2 * rounds):
                launched.acquire()
                sums = N(total * 1.0)
                if not (sums == sums[0]).all() or sums[0] < last:
                    wrong.append(sums)
                last = sums[0]

    threads = [threading.Thread(target=f) for f in (produce, produce, consume, produce, produce, consume)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    assert not any(t.is_alive() for t in threads) and not wrong
    assert N(total).tolist() == [4.0 * rounds] * 1000


def test_e4_consumers_that_are_functions_and_copies_see_whole_launches(name):
    total, x = A(np.zeros(200_000)), A(np.ones(200_000))
    exe, f = gla.capture(lambda: total.assign(total + x)).instantiate(), gla.function(lambda v: v * 1.0)
    wrong, stop = [], threading.Event()

    def consume():
        with gla.device(name), gla.Stream():
            while not stop.is_set():
                for sums in (N(f(total)), N(total)):
                    if not (sums == sums[0]).all():
                        wrong.append((sums.min(), sums.max()))

    threads = [threading.Thread(target=consume) for _ in range(2)]
    [t.start() for t in threads]
    for _ in range(60):
        exe()
    stop.set()
    [t.join(60) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads) and N(total)[7] == 60.0


def test_e5_concurrent_captures_in_several_threads(name):
    wrong = []

    def work(k):
        try:
            with gla.device(name):
                x, y = A(np.full(100, float(k))), A(np.zeros(100))
                for n in range(1, 21):
                    exe = gla.capture(lambda: y.assign(y + x)).instantiate()
                    exe()
                    if N(y).tolist() != [float(k * n)] * 100:
                        wrong.append((k, n))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads) and engine.machine(name).gate.captures == 0


def test_e6_a_coroutine_is_captured(name):
    x = A([1.0, 2.0])

    async def body(k):
        await asyncio.sleep(0)
        y = x * k
        await asyncio.sleep(0)
        assert gla.is_capturing()
        x.assign(y + 1)
        return y

    async def main():
        graph = await gla.capture(body, 3.0)
        assert not gla.is_capturing()
        return graph

    graph = asyncio.run(main())
    assert N(x).tolist() == [1.0, 2.0]
    graph.instantiate()()
    assert N(x).tolist() == [4.0, 7.0] and N(graph.outputs).tolist() == [3.0, 6.0]


def test_e6_a_coroutine_that_nobody_awaits_is_refused(name):
    async def body():
        return 1

    with pytest.raises(CaptureError, match="await"):
        gla.capture(lambda: body())  # noqa: PLW0108 - not a coroutine function


def test_e6_a_graph_captures_coroutines_by_hand(name):
    x, graph = A([1.0]), gla.Graph()

    async def body(k):
        x.assign(x * k)

    async def main():
        first = await graph.capture(body, 3.0)
        return await graph.capture(body, 5.0, after=first)

    frontier = asyncio.run(main())
    assert len(frontier) == 1 and len(graph) == 2
    graph.instantiate()()
    assert N(x).tolist() == [15.0]


def test_e6_children_are_recorded_in_the_order_of_submission(name):
    x = A([1.0])

    def times(k):
        x.assign(x * k)

    async def plus(k):
        x.assign(x + k)

    async def body():
        await asyncio.create_task(plus(1.0))
        await asyncio.to_thread(times, 10.0)
        await asyncio.gather(plus(2.0), plus(3.0))
        await gla.spawn(times, 2.0)
        gla.spawn(times, 4.0).result()

    graph = asyncio.run(_captured(body))
    assert N(x).tolist() == [1.0]
    graph.instantiate()()
    assert N(x).tolist() == [(2 * 10 + 5) * 8.0]


async def _captured(body):
    return await gla.capture(body)


def test_e6_many_children_at_once_lose_nothing(name):
    x, ys = A(np.ones(8)), [A(np.zeros(8)) for _ in range(8)]
    total = A(np.zeros(8))

    def child(k):
        for _ in range(5):
            ys[k].assign(ys[k] + x * (k + 1))
            total.__iadd__(x)

    def body():
        for c in [gla.spawn(child, k) for k in range(8)]:
            c.result(60)

    gla.capture(body).instantiate()()
    assert [N(y)[0] for y in ys] == [5.0 * (k + 1) for k in range(8)] and N(total).tolist() == [40.0] * 8


def test_e6_a_plain_thread_runs_eagerly(name):
    x, y, seen = A([1.0]), A([1.0]), []

    def work():
        seen.append(gla.is_capturing())
        x.assign(x + 1)
        return N(x).item()

    def body():
        y.assign(y + 1)
        seen.append(elsewhere(name, work))

    graph = gla.capture(body)
    assert seen == [False, 2.0] and len(graph) == 1
    graph.instantiate()()
    assert N(x).tolist() == [2.0] and N(y).tolist() == [2.0]


def test_e6_a_child_keeps_device_and_stream_outside_of_captures(name):
    with gla.Stream() as s:
        child = gla.spawn(lambda: (gla.current_stream(), A([2.0]).device, 5))
        assert child.result() == (s, name, 5) and child.done()
    with pytest.raises(ZeroDivisionError):
        gla.spawn(lambda: 1 // 0).result()


def test_e6_without_the_gil_children_in_other_threads_are_refused(name, monkeypatch):
    x, wrong = A([1.0]), []

    def child():
        try:
            x.assign(x + 1)
        except CaptureError as error:
            wrong.append(str(error))

    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.warns(RuntimeWarning, match="free-threaded"):
        tasks.warn_of_free_threading()
    graph = gla.capture(lambda: gla.spawn(child).result())
    assert len(graph) == 0 and "another thread" in wrong[0]


def test_e7_a_spawned_child_unfinished_at_the_end_is_named(name):
    x, go, failed = A([1.0]), threading.Event(), []

    def straggler():
        x.assign(x + 1)
        submitted.set()
        go.wait(60)
        try:
            x.assign(x + 1)
        except CaptureError as error:
            failed.append(error)

    def body():
        children.append(gla.spawn(straggler))
        submitted.wait(60)

    submitted, children = threading.Event(), []
    with pytest.raises(CaptureError, match=r"straggler .*test_e_threads\.py:\d+.* not finished"):
        gla.capture(body)
    assert not gla.is_capturing()
    go.set()
    children[0].result(60)
    assert len(failed) == 1 and N(x).tolist() == [1.0]


def test_e7_a_task_unfinished_at_the_end_is_named(name):
    x = A([1.0])

    async def straggler():
        x.assign(x + 1)
        await asyncio.sleep(10)

    async def body():
        kept.append(asyncio.create_task(straggler(), name="the slow one"))
        await asyncio.sleep(0)

    async def main():
        with pytest.raises(CaptureError, match=r"'the slow one'.*straggler.*not finished"):
            await gla.capture(body)
        kept[0].cancel()

    kept = []
    asyncio.run(main())
    assert N(x).tolist() == [1.0]


def test_e7_a_task_that_submitted_nothing_is_nobodys_business(name):
    x = A([1.0])

    async def body():
        kept.append(asyncio.create_task(asyncio.sleep(0.01)))
        await asyncio.sleep(0)
        x.assign(x + 1)

    async def main():
        graph = await gla.capture(body)
        await kept[0]
        return graph

    kept = []
    asyncio.run(main()).instantiate()()
    assert N(x).tolist() == [2.0]


def test_e7_a_worker_of_to_thread_is_found_when_it_submits_next(name):
    x, go, wrong = A([1.0]), threading.Event(), []

    def worker():
        x.assign(x + 1)
        first.set()
        go.wait(60)
        try:
            x.assign(x * 100)
        except CaptureError as error:
            wrong.append(str(error))

    async def body():
        kept.append(asyncio.ensure_future(asyncio.to_thread(worker)))
        while not first.is_set():
            await asyncio.sleep(0.001)
        kept[0].cancel()  # the task ends, its thread does not
        await asyncio.sleep(0.001)

    async def main():
        graph = await gla.capture(body)
        go.set()
        return graph

    first, kept = threading.Event(), []
    graph = asyncio.run(main())
    assert wrong and "end" in wrong[0]
    graph.instantiate()()
    assert N(x).tolist() == [2.0]


def test_e7_what_a_child_raised_and_nobody_looked_at_is_raised(name):
    def child():
        raise ZeroDivisionError("in the child")

    def body():
        c = gla.spawn(child)
        while not c.done():
            pass

    with pytest.raises(ZeroDivisionError, match="in the child"):
        gla.capture(body)
    assert not gla.is_capturing() and engine.machine(name).gate.captures == 0


def test_e8_another_captures_stream_is_refused(name):
    x, s = A([1.0]), gla.Stream()
    exe = gla.capture(lambda: x.assign(x + 1)).instantiate()
    inside, go, wrong = threading.Event(), threading.Event(), []

    def holder():
        with gla.device(name):
            gla.capture(lambda: (inside.set(), go.wait(60)), stream=s)

    thread = threading.Thread(target=holder)
    thread.start()
    inside.wait(60)

    def child():
        for use in (s.__enter__, lambda: exe.launch(s)):
            with pytest.raises(CaptureError, match="another capture"):
                use()
            wrong.append(1)

    try:
        gla.capture(lambda: gla.spawn(child).result())
        child()
    finally:
        go.set()
        thread.join()
    assert len(wrong) == 4
    exe.launch(s)
    assert N(x).tolist() == [2.0]


def test_e8_switching_the_device_inside_a_capture_is_refused(name):
    other = "host" if name != "host" else None
    x = A([1.0])

    def child():
        with gla.device(other):
            return x + 1

    if other is None:
        from gla.array.recording import CaptureScope
        from gla.array.scope import current

        token = current.set(CaptureScope("f", "cuda:0"))  # as if the capture were another device's
        try:
            with pytest.raises(CaptureError, match="switched"):
                gla.device("host")
        finally:
            current.reset(token)
        return
    with pytest.raises(CaptureError, match="switched"):
        gla.capture(lambda: gla.spawn(child).result())


@pytest.mark.needs_two_gpus
def test_e8_the_second_gpu_inside_a_capture_of_the_first():
    with gla.device("cuda:0"):
        x = A([1.0])

        def body():
            with gla.device("cuda:1"):
                return x + 1

        with pytest.raises(CaptureError, match="switched"):
            gla.capture(body)


def test_h5_a_launch_is_awaited_without_blocking_the_loop(name):
    x, beats = A(np.zeros(10)), []
    exe = gla.capture(lambda: x.assign(x + 1)).instantiate()

    async def beat():
        while True:
            beats.append(1)
            await asyncio.sleep(0)

    async def main():
        task = asyncio.create_task(beat())
        await asyncio.gather(*(exe.launch_async() for _ in range(20)))
        task.cancel()

    asyncio.run(main())
    assert N(x).tolist() == [20.0] * 10 and beats
