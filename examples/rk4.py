"""Ten steps of classical RK4 on 4096 float32 numbers, `u' = sin(u) - 0.1 u`, as one gla.function: one kernel, one launch.

    python examples/rk4.py

Prints the largest difference to the same steps in float64 NumPy: about 6e-7: ten steps of float32.
"""

import numpy as np

import gla

STEPS, DT = 10, 0.01


def derivative(u, xp):
    return xp.sin(u) - 0.1 * u


def rk4(u, dt, xp):
    """`STEPS` steps of length dt; `xp` is gla or numpy."""
    for _ in range(STEPS):
        k1 = derivative(u, xp)
        k2 = derivative(u + 0.5 * dt * k1, xp)
        k3 = derivative(u + 0.5 * dt * k2, xp)
        k4 = derivative(u + dt * k3, xp)
        u = u + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return u


@gla.function
def integrate(u, dt):
    return rk4(u, dt, gla)


def main() -> float:
    start = np.linspace(-3.0, 3.0, 4096)
    u = gla.asarray(start.astype(np.float32))
    result = np.asarray(integrate(u, DT))
    error = float(np.abs(result - rk4(start, DT, np)).max())
    print(f"largest difference to float64: {error:.1e}")
    # A Python float is a runtime number: another step length runs the same graph.
    integrate(u, 2 * DT)
    return error


if __name__ == "__main__":
    main()
