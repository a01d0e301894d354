"""A perceptron of four layers, `h = max(W @ h + b, 0)`, recorded into a graph once and replayed for every new input.

    python examples/mlp.py

Prints the largest relative difference to float64 NumPy over three inputs: about 1e-6. The graph holds the addresses of its
arrays; a new input is written into the array that was captured, and the results are there after the launch.
"""

import numpy as np

import gla

LAYERS, WIDTH, COLUMNS = 4, 256, 16


def forward(h, weights, biases, xp):
    for w, b in zip(weights, biases):
        h = xp.maximum(w @ h + b[:, None], 0.0)
    return h


def main() -> float:
    rng = np.random.default_rng(0)
    weights = rng.normal(scale=np.sqrt(2.0 / WIDTH), size=(LAYERS, WIDTH, WIDTH)).astype(np.float32)
    biases = rng.normal(scale=0.1, size=(LAYERS, WIDTH)).astype(np.float32)
    w = [gla.asarray(one) for one in weights]
    b = [gla.asarray(one) for one in biases]
    h = gla.asarray(np.zeros((WIDTH, COLUMNS), np.float32))

    graph = gla.capture(lambda h: forward(h, w, b, gla), h)
    run = graph.instantiate()
    out = run.outputs

    worst = 0.0
    for _ in range(3):
        x = rng.normal(size=(WIDTH, COLUMNS)).astype(np.float32)
        h[...] = x
        run()
        expected = forward(x.astype(np.float64), weights.astype(np.float64), biases.astype(np.float64), np)
        worst = max(worst, float(np.abs(np.asarray(out) - expected).max() / np.abs(expected).max()))
    print(f"largest relative difference to float64: {worst:.1e}")
    return worst


if __name__ == "__main__":
    main()
