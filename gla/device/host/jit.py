"""LLVM through llvmlite: IR text -> object bytes -> code in memory. Loaded when something is first compiled or loaded.

`emit_object` optimises for this machine and gives an object file, which may be kept on disk under `version()`. `Library` is
an object in memory; it may use the C mathematics library, memcpy, memmove and memset, and nothing else.
"""

from __future__ import annotations

import itertools
import threading
from functools import cache
from hashlib import sha256
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from gla.errors import DeviceError, InternalError

MATH = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod
hypot ldexp lgamma log log10 log1p log2 nearbyint nextafter pow rint round roundeven sin sincos sinh sqrt tan tanh tgamma trunc"""
SYMBOLS = frozenset(name + end for name in MATH.split() for end in ("", "f")) | {"memcpy", "memmove", "memset"}

_lock = threading.RLock()
_numbers = itertools.count()


@cache
def _machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=3, reloc="pic", codemodel="small", jit=False
    )


@cache
def _features() -> str:
    return llvm.get_host_cpu_features().flatten()


@cache
def vector_bits() -> int:
    """The width of vectors that code is made for."""
    return 512 if "+avx512f" in _features().split(",") else 256


@cache
def version() -> str:
    """What an object depends on beside its text: llvmlite, LLVM, the processor and its features, our flags."""
    number = ".".join(map(str, llvm.llvm_version_info))
    digest = sha256(_features().encode()).hexdigest()[:16]
    return f"llvmlite {llvmlite.__version__} llvm {number} {llvm.get_host_cpu_name()} {digest} O3 v{vector_bits()}"


def _optimised(source: str, name: str) -> llvm.ModuleRef:
    source = source.replace("attributes #0 = {", f'attributes #0 = {{ "prefer-vector-width"="{vector_bits()}"')
    machine = _machine()
    try:
        module = llvm.parse_assembly(source, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        message = str(error).strip()
        raise InternalError("GLA9920", f"LLVM refuses the text of {name}: {message}", notes=(source,)) from error
    module.name = name
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.loop_interleaving = True
    options.loop_unrolling = False  # unrolling reductions took four times the time to compile, and gained nothing
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def emit_object(source: str, name: str) -> bytes:
    """Compile one module of LLVM IR text to an object file."""
    with _lock:
        return bytes(_machine().emit_object(_optimised(source, name)))


def emit_assembly(source: str, name: str = "module") -> str:
    """The same code as assembly text, for people and tests."""
    with _lock:
        return _machine().emit_assembly(_optimised(source, name))


@cache
def _engine() -> Any:
    _machine()
    # JITLink keeps code and its constants within reach of each other; the older linker places sections apart and lets 32-bit
    # relocations overflow where a driver has reserved much address space: a crash now and then.
    return llvm.create_lljit_compiler(_machine(), use_jit_link=True)


class Library:
    """An object file in memory. `address(name)` finds a function; `close` gives the memory back."""

    __slots__ = ("_trackers", "name")

    def __init__(self, image: bytes) -> None:
        self.name = f"gla{next(_numbers)}"
        with _lock:
            builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
            try:
                self._trackers: list[Any] = [builder.link(_engine(), self.name)]
            except RuntimeError as error:
                raise DeviceError(
                    "GLA0511", f"the host device cannot load this code: {error}", help="clear the disk cache: gla cache clear"
                ) from error

    def address(self, name: str) -> int:
        with _lock:
            try:
                tracker = _engine().lookup(self.name, name)
            except RuntimeError as error:
                raise DeviceError("GLA0522", f"the host device finds no function {name!r} in this code: {error}") from error
            self._trackers.append(tracker)
            return tracker[name]

    def close(self) -> None:
        with _lock:
            while self._trackers:
                self._trackers.pop().close()
