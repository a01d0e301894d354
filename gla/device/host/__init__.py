"""The host device: LLVM code on this machine's processors, behind the same interface as a GPU."""

from gla.device.host.device import HostDevice, open_device

__all__ = ["HostDevice", "open_device"]
