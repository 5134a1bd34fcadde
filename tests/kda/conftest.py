"""Where a KDA test runs: on the CPU, and on the device with the same body."""

import pytest
from kda.places import Place, register_host_kernels


@pytest.fixture(scope="session")
def kda_kernels(real_gpu):
    """Make the kernels launchable on the driver of the session."""
    if not real_gpu:
        import fake_driver

        register_host_kernels(fake_driver.load())


@pytest.fixture(params=["cpu", "cuda"])
def place(request, device, kda_kernels):
    """Return where to run: the CPU, then device 0."""
    return Place(request.param)


@pytest.fixture
def gpu_place(device, kda_kernels):
    """Return device 0 alone."""
    return Place("cuda")
