# ruff: noqa: B023
"""Random programs of views and writes against NumPy: at top level, in a function, in a capture that is launched three times."""

import numpy as np
import pytest

import gla

STEPS = 6


def random_key(rng, shape):
    key = []
    for extent in shape:
        kind = rng.integers(0, 4)
        if kind == 0:
            key.append(int(rng.integers(-extent, extent)))
        elif kind == 1:
            key.append(slice(None))
        else:
            start, stop = sorted(rng.integers(0, extent + 1, 2).tolist())
            step = int(rng.choice([1, 2, -1]))
            key.append(
                slice(start, stop, step) if step > 0 else slice(stop - 1 if stop else None, start - 1 if start else None, -1)
            )
    return tuple(key)


def program(seed):
    """A list of steps, each a function of (array, another array) that works on NumPy and on gla."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, rng.integers(1, 4)).tolist())
    steps = []
    for _ in range(STEPS):
        key, kind, number = random_key(rng, shape), rng.integers(0, 7), float(rng.integers(1, 4))
        steps.append((key, int(kind), number, rng.integers(0, shape[0], 3).tolist()))
    return shape, steps


def run(x, y, steps, module):
    for key, kind, number, rows in steps:
        if kind == 0:
            x[key] = number
        elif kind == 1:
            x[key] += y[key] * number
        elif kind == 2:
            view = x[key]
            if view.ndim or isinstance(view, gla.Array):
                view *= number
            else:
                x[key] = view * number
        elif kind == 3:
            view = x.T
            view += y.T
        elif kind == 4:
            x[rows] = y[rows[0]] + number
        elif kind == 5:
            flat = x.reshape(-1)
            flat[1:] = flat[:-1].copy() if module is np else flat[:-1]
            flat[:2] *= 2
            total = module.sum(flat[::2])
            y[key] = y[key] - total
        else:
            part = x[key]
            total = module.sum(part * 2) if part.ndim else part * 2
            y[key] = total + number
    return x * 2 + y


@pytest.mark.parametrize("seed", range(40))
def test_random_writes(seed):
    shape, steps = program(seed)
    start = np.random.default_rng(seed + 1000).integers(-5, 5, (2, *shape)).astype(np.float64)
    results = []
    for way in ("numpy", "lazy", "function", "capture"):
        a, b = start[0].copy(), start[1].copy()
        times = 3
        if way == "numpy":
            outs = [run(a, b, steps, np) for _ in range(times)]
        else:
            a, b = gla.asarray(a), gla.asarray(b)
            if way == "lazy":
                outs = [np.asarray(run(a, b, steps, gla)) for _ in range(times)]
            elif way == "function":
                f = gla.function(lambda p, q: run(p, q, steps, gla))
                outs = [np.asarray(f(a, b)) for _ in range(times)]
            else:
                exe = gla.capture(lambda: run(a, b, steps, gla)).instantiate()
                outs = []
                for _ in range(times):
                    exe()
                    outs.append(np.asarray(exe.outputs))
        results.append((way, [*outs, np.asarray(a), np.asarray(b)]))
    _, expected = results[0]
    for way, given in results[1:]:
        for mine, right in zip(given, expected):
            np.testing.assert_array_equal(mine, right, err_msg=f"{way}: {steps}")
