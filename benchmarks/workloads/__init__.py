"""The workloads of record, a file each. `ALL` lists them in the order of the tables."""

from benchmarks.workloads import mlp, rk4

ALL = (mlp.WORKLOAD, rk4.WORKLOAD)
