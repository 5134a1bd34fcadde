"""Where a KDA test runs: on the CPU, and on the device with the same body."""

import pytest
from kda.places import Place

from madspace.kda._launch import ARGS_NBYTES, run_host_kernel


def _twin(channels):
    def launch(params, grid, block):
        run_host_kernel(params[0], channels)

    return launch


def _register_host_kernel(fake):
    """Let the fake driver run the host kernel where the last kernel of a call is launched."""
    for channels in (64, 128):
        for name in ("kda_forward", "kda_scan", "kda_decode"):
            fake.register(f"{name}_{channels}", _twin(channels), [ARGS_NBYTES])
        fake.register(f"kda_prepare_{channels}", lambda params, grid, block: None, [ARGS_NBYTES])


@pytest.fixture(scope="session")
def kda_kernels(real_gpu):
    """Make the kernels launchable on the driver of the session."""
    if not real_gpu:
        import fake_driver

        _register_host_kernel(fake_driver.load())


@pytest.fixture(params=["cpu", "cuda"])
def place(request, device, kda_kernels):
    """Return where to run: the CPU, then device 0."""
    return Place(request.param)


@pytest.fixture
def gpu_place(device, kda_kernels):
    """Return device 0 alone."""
    return Place("cuda")
