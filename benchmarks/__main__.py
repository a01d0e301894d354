"""`python -m benchmarks`: workloads x devices x libraries that are present; correctness first, then three figures each."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from benchmarks.calls import replay_calls
from benchmarks.report import Row, machine, markdown, write_json
from benchmarks.timing import measure
from benchmarks.workload import Prepare, Unavailable, Workload, relative_error
from benchmarks.workloads import ALL


def devices(wanted: str | None) -> list[str]:
    """The devices to run on: those asked for, or the host and a GPU where one works."""
    if wanted:
        return wanted.split(",")
    found = ["host"]
    try:
        from gla.device.cuda import open_device

        open_device(0)
        found.append("cuda")
    except Exception as error:
        print(f"no GPU: {str(error).splitlines()[0]}")
    return found


def one(workload: Workload, device: str, name: str, prepare: Prepare, smoke: bool) -> Row | None:
    """Prepare, check against float64, measure. None where the library is missing."""
    base = (workload.name, workload.title, device, name)
    try:
        ready = prepare(device, smoke)
    except ImportError:
        return None
    except Unavailable as why:
        return Row(*base, note=str(why)) if name.startswith("gla") else None
    ready.call()
    ready.wait()
    error = relative_error(ready.result(), workload.reference(device, smoke))
    if not error <= workload.tolerance:
        return Row(*base, error=error, note=f"WRONG: error above {workload.tolerance:g}")
    figures = measure(ready.call, ready.wait, 0.05 if smoke else 0.5)
    calls = replay_calls(ready.call) if name.startswith("gla") else 0
    ready.wait()
    return Row(*base, error=error, figures=figures, rate=rate(workload, device, smoke, figures.iteration), calls=calls)


def rate(workload: Workload, device: str, smoke: bool, microseconds: float) -> str:
    """Effective bandwidth or arithmetic rate, counted in the fewest bytes and operations."""
    moved, done = workload.bytes_moved(device, smoke), workload.operations(device, smoke)
    parts = [f"{moved / microseconds / 1e6:.3g} TB/s"] if moved else []
    return ", ".join(parts + ([f"{done / microseconds / 1e6:.3g} TFLOP/s"] if done else []))


def run(workloads: Iterable[Workload], places: list[str], peers: set[str] | None, smoke: bool) -> list[Row]:
    """Every row, printed as it comes."""
    rows = []
    for workload in workloads:
        for device in places:
            if device not in workload.devices:
                continue
            for name, prepare in workload.implementations.items():
                if peers is not None and not any(name.startswith(p) for p in peers):
                    continue
                row = one(workload, device, name, prepare, smoke)
                if row is not None:
                    rows.append(row)
                    figures = row.figures
                    shown = f"{figures.submit:10.1f} {figures.iteration:12.1f} {figures.latency:10.1f}" if figures else row.note
                    print(f"{workload.name:14} {device:5} {name:24} {shown}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", help=f"names (all without): {', '.join(w.name for w in ALL)}")
    parser.add_argument("--device", help="host, cuda, or both with a comma (default: what is there)")
    parser.add_argument("--peers", help="only implementations whose name begins so, comma separated: gla,numpy,torch")
    parser.add_argument("--smoke", action="store_true", help="small and short: under a minute without a GPU")
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--markdown", type=Path, help="write the tables there")
    arguments = parser.parse_args()
    chosen = [w for w in ALL if not arguments.workloads or w.name in arguments.workloads]
    print(machine())
    print(f"{'workload':14} {'where':5} {'implementation':24} {'submit us':>10} {'iteration us':>12} {'latency us':>10}")
    peers = set(arguments.peers.split(",")) if arguments.peers else None
    rows = run(chosen, devices(arguments.device), peers, arguments.smoke)
    table = markdown(rows)
    print("\n" + table)
    if arguments.json:
        write_json(arguments.json, rows)
    if arguments.markdown:
        arguments.markdown.write_text(table)
    return 1 if any(r.note.startswith("WRONG") for r in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
