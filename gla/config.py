"""Options as one frozen value, read from the environment once. Passed down; part of every cache key that they change."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile. `fma`: contract a*b+c; `default_float`: dtype name of undecorated float results; `passes`: run the optimising passes; `verify`: check the IR between passes."""

    fma: bool = False
    default_float: str = "float64"
    passes: bool = True
    verify: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment says: GLA_DEVICE, GLA_STRICT (host device's strict mode), GLA_CACHE_DIR, GLA_FULL_TRACEBACK, GLA_VERIFY, GLA_THREADS."""

    device: str = "auto"
    strict: bool = False
    cache_dir: str | None = None
    full_traceback: bool = False
    options: Options = field(default_factory=Options)
    threads: int = 0


@cache
def environment() -> Environment:
    get = os.environ.get
    return Environment(
        device=get("GLA_DEVICE", "auto") or "auto",
        strict=_flag("GLA_STRICT"),
        cache_dir=get("GLA_CACHE_DIR") or None,
        full_traceback=_flag("GLA_FULL_TRACEBACK"),
        options=Options(verify=_flag("GLA_VERIFY")),
        threads=int(get("GLA_THREADS", "0") or 0),
    )


def _flag(name: str) -> bool:
    return os.environ.get(name, "").lower() not in ("", "0", "false", "no")
