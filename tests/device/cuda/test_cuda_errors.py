"""Every status of the driver and of cuBLAS becomes an error of gla that names call and status."""

from __future__ import annotations

import pytest
from cuda.bindings import driver
from device.cuda.fake import FakeTable

from gla.device.cuda.errors import ADVICE, CUBLAS, cublas_error, driver_error
from gla.errors import DeviceError, OutOfMemoryError

STATUSES = [status for status in driver.CUresult if status]


@pytest.mark.parametrize("status", STATUSES, ids=lambda s: s.name)
def test_a_status_of_the_driver_is_an_error(status):
    error = driver_error(status, "cuSomething", FakeTable(), "while it did something")
    expected = OutOfMemoryError if status.name == "CUDA_ERROR_OUT_OF_MEMORY" else DeviceError
    assert type(error) is expected and error.code.startswith("GLA05")
    assert error.diagnostic.message == f"while it did something: cuSomething failed: {status.name} (what the driver says)"
    assert error.diagnostic.help


def test_advice_is_given_for_statuses_that_there_are():
    names = {status.name.removeprefix("CUDA_ERROR_") for status in STATUSES}
    assert set(ADVICE) <= names


def test_a_status_without_a_name_is_shown_by_number():
    assert "status 12345" in str(driver_error(12345, "cuSomething"))


def test_a_fault_in_a_kernel_says_that_the_context_is_lost():
    error = driver_error(driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, "cuGraphLaunch")
    assert error.code == "GLA0562" and "context is lost" in str(error)


@pytest.mark.parametrize("status", CUBLAS)
def test_a_status_of_cublas_is_an_error(status):
    error = cublas_error(status, "cublasGemmEx", "matmul (1, 2) @ (2, 3) of float32")
    assert isinstance(error, OutOfMemoryError if status in (1, 3) else DeviceError)
    assert error.diagnostic.message == f"matmul (1, 2) @ (2, 3) of float32: cublasGemmEx failed: {CUBLAS[status]}"
