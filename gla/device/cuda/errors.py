"""Turns statuses of the driver, NVRTC and cuBLAS into GlaErrors: the call, the name, the driver's own text, what to do.

Every status has a class (OutOfMemoryError or DeviceError); those that a user can do something about have advice.
"""

from __future__ import annotations

from typing import Any

from gla.errors import DeviceError, GlaError, OutOfMemoryError

LOST = (
    "the CUDA context is lost: start the process again",
    "find the access with `compute-sanitizer python ...`; if no kernel of yours is involved, please report it",
)
DRIVER = "install a newer NVIDIA driver, or the extra of gla that suits the one you have (`gla doctor` names it)"

# by the name of the status, without CUDA_ERROR_
ADVICE: dict[str, tuple[str, ...]] = {
    "OUT_OF_MEMORY": (
        "free arrays that are no longer needed, call gla.reclaim(), or use a smaller problem",
        "nvidia-smi shows who else holds memory",
    ),
    "NO_DEVICE": ("check that `nvidia-smi` lists a GPU and that CUDA_VISIBLE_DEVICES does not hide it",),
    "INVALID_DEVICE": ("`gla doctor` lists the devices that there are",),
    "DEVICE_UNAVAILABLE": ("another process has the GPU for itself (exclusive mode): wait for it or choose another GPU",),
    "DEVICE_NOT_LICENSED": ("the virtual GPU has no licence: ask whoever runs the machine",),
    "ECC_UNCORRECTABLE": ("the GPU's memory reported an error that it could not correct: reset or replace the GPU",),
    "SYSTEM_DRIVER_MISMATCH": ("the driver was updated while the machine ran: restart it",),
    "COMPAT_NOT_SUPPORTED_ON_DEVICE": (
        "remove the CUDA compatibility package from LD_LIBRARY_PATH: this GPU does not take it",
    ),
    "SYSTEM_NOT_READY": ("start nvidia-fabricmanager, or wait until it has finished starting",),
    "NOT_INITIALIZED": ("the process forked after CUDA had started: use multiprocessing's 'spawn'", "or it is ending"),
    "DEINITIALIZED": ("the process is ending: CUDA is gone already",),
    "NO_BINARY_FOR_GPU": ("the kept kernel is for another GPU: `gla cache clear`",),
    "INVALID_IMAGE": ("a kept kernel is damaged: `gla cache clear`",),
    "INVALID_PTX": ("a kept kernel is damaged: `gla cache clear`",),
    "UNSUPPORTED_PTX_VERSION": ("NVRTC is newer than the driver", DRIVER),
    "JIT_COMPILER_NOT_FOUND": ("the driver's PTX compiler is missing: install the whole driver package",),
    "LAUNCH_OUT_OF_RESOURCES": (
        "the kernel needs more registers or threads than a block may have; please report generated kernels",
    ),
    "LAUNCH_TIMEOUT": ("the kernel ran too long for a GPU with a display: use another GPU or smaller steps",),
    "ILLEGAL_ADDRESS": LOST,
    "MISALIGNED_ADDRESS": LOST,
    "INVALID_ADDRESS_SPACE": LOST,
    "INVALID_PC": LOST,
    "ILLEGAL_INSTRUCTION": LOST,
    "HARDWARE_STACK_ERROR": LOST,
    "LAUNCH_FAILED": LOST,
    "ASSERT": ("a kernel's assert failed; its message is on standard error", *LOST[:1]),
    "STREAM_CAPTURE_UNSUPPORTED": ("the operation cannot be recorded into a graph: move it out of the capture",),
    "STREAM_CAPTURE_INVALIDATED": ("something outside gla did an operation that is not allowed while a capture is open",),
    "STREAM_CAPTURE_MERGE": ("two captures met: do not wait in one for an event of the other",),
    "STREAM_CAPTURE_UNMATCHED": ("end the capture on the stream that began it",),
    "STREAM_CAPTURE_UNJOINED": ("a side stream of the capture was not joined again",),
    "STREAM_CAPTURE_ISOLATION": ("a captured operation depends on work outside the capture: synchronise before it",),
    "STREAM_CAPTURE_IMPLICIT": ("the default stream cannot be used while a capture is open: use a stream of your own",),
    "CAPTURED_EVENT": ("an event recorded in a capture cannot be waited for or asked outside it",),
    "GRAPH_EXEC_UPDATE_FAILURE": ("the graph's structure changed: instantiate it again",),
    "NOT_SUPPORTED": ("this GPU or driver cannot do it", DRIVER),
    "OPERATING_SYSTEM": ("the system refused: look at limits on locked memory and at the kernel's log",),
    "MPS_CONNECTION_FAILED": ("start the MPS control daemon, or unset CUDA_MPS_PIPE_DIRECTORY",),
}


def driver_error(status: Any, call: str, table: Any = None, detail: str = "") -> GlaError:
    """The error for a CUresult that is not success. `table` is asked for the driver's own text; `detail` says what was asked for."""
    name, text = _described(status, table)
    short = name.removeprefix("CUDA_ERROR_")
    message = f"{call} failed: {name}{f' ({text})' if text else ''}"
    if detail:
        message = f"{detail}: {message}"
    if short == "OUT_OF_MEMORY":
        return OutOfMemoryError("GLA0554", message, help=ADVICE[short])
    code = "GLA0562" if ADVICE.get(short) == LOST else "GLA0553"
    return DeviceError(code, message, help=ADVICE.get(short, ("`gla doctor` shows driver, devices and libraries",)))


def _described(status: Any, table: Any) -> tuple[str, str]:
    """(name, text) of a status; a driver newer than the bindings may give one that has no name here."""
    name = getattr(status, "name", None) or f"status {int(status)}"
    if table is None:
        return name, ""
    try:
        said = [table.cuGetErrorName(status), table.cuGetErrorString(status)]
    except (RuntimeError, TypeError, ValueError):  # no driver, or a status that the enumeration lacks
        return name, ""
    texts = [answer[1].decode(errors="replace") if not answer[0] and answer[1] else "" for answer in said]
    return texts[0] or name, texts[1]


# cublasStatus_t
CUBLAS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
    16: "CUBLAS_STATUS_LICENSE_ERROR",
}


def cublas_error(status: int, call: str, detail: str = "") -> GlaError:
    """The error for a cublasStatus_t that is not success."""
    name = CUBLAS.get(status, f"status {status}")
    message = f"{detail + ': ' if detail else ''}{call} failed: {name}"
    if status in (1, 3):  # creating a handle without memory gives either
        return OutOfMemoryError("GLA0554", message, help=ADVICE["OUT_OF_MEMORY"])
    return DeviceError("GLA0559", message, help="`gla doctor` shows driver, devices and libraries")
