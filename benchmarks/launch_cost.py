"""`python -m benchmarks.launch_cost`: what a launch of an executable costs, from 1 to 1,000 leased blocks (guarantee C9).

One kernel node; the other blocks are leased to the executable's record as a graph leases what it captured. The host's time per
launch is what is measured, the least of several rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gla
from gla.runtime.devices import get_device
from gla.runtime.memory.lease import Lease

BLOCKS = (1, 10, 100, 1000)


def microseconds(device: str, blocks: int, launches: int = 200, rounds: int = 15) -> float:
    """The host's time for one launch of an executable that leases so many blocks."""
    machine = get_device(device)
    with gla.device(device):
        x = gla.asarray(np.zeros(8))
        exe = gla.capture(lambda: x.assign(x + 1)).instantiate().record
    lease = Lease(machine.gate, [machine.allocate(512).block for _ in range(blocks - 1)], exe._use)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(launches):
            exe.launch()
        best = min(best, (time.perf_counter() - start) / launches)
        machine.synchronize()
    lease.release()
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of a launch by the number of leased blocks.")
    parser.add_argument("--device", default="host", help="host, cuda, cuda:1")
    device = parser.parse_args().device
    for blocks in BLOCKS:
        print(f"{device}: {blocks:>5,} leased blocks  {microseconds(device, blocks):7.2f} us a launch")


if __name__ == "__main__":
    main()
