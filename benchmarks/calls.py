"""How many calls Python makes for one replay: a figure that does not depend on the machine or its load.

Functions written in Python count, and functions written in C that Python code calls. What happens inside the driver does not.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any


def replay_calls(call: Callable[[], Any]) -> int:
    """Calls made by one `call()`, itself included; the least of a few, since a garbage collection may come between."""
    return min(sum(_profile(call).values()) for _ in range(5))


def named_calls(call: Callable[[], Any]) -> Counter[str]:
    """The same by name, for whoever looks for what grew."""
    return _profile(call)


def _profile(call: Callable[[], Any]) -> Counter[str]:
    seen: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen[frame.f_code.co_qualname] += 1
        elif event == "c_call" and argument is not sys.setprofile:
            seen[argument.__qualname__] += 1

    call()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen
