"""NVIDIA GPUs: driver, NVRTC and cuBLAS behind the interface of gla.device.base. Nothing above imports `cuda`."""

from gla.device.cuda.device import CudaDevice, open_device
from gla.device.cuda.probe import Finding, probe

__all__ = ["CudaDevice", "Finding", "open_device", "probe"]
