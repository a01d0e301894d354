"""The workloads of record, a file each. `ALL` lists them in the order of the tables."""

from benchmarks.workloads import batched, gray_scott, heat2d, matmul, meanvar, mlp, nbody, rk4, softmax, stream

ALL = (
    mlp.WORKLOAD,
    rk4.WORKLOAD,
    stream.WORKLOAD,
    *heat2d.WORKLOADS,
    *gray_scott.WORKLOADS,
    softmax.WORKLOAD,
    *meanvar.WORKLOADS,
    nbody.WORKLOAD,
    batched.WORKLOAD,
    matmul.WORKLOAD,
)
