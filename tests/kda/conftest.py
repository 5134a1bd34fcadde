"""Where a KDA test runs: on the CPU, and on the device with the same body."""

from pathlib import Path

import pytest
from kda.places import Place, problem_of_kernels, register_kernels

HERE = Path(__file__).parent
PLAYED = 8  # one of so many cases runs on a driver that is only played


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave most cases on a device to a real one: lane by lane on the host they take long."""
    seen = {}
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        # The contiguous cases of test_sanitize.py are every variant of the kernels once.
        if item.path.parent == HERE and parameters.get("place") == "cuda" and parameters.get("layout") != "contiguous":
            number = seen[item.function] = seen.get(item.function, -1) + 1
            if number % PLAYED:
                item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def kda_kernels(real_gpu):
    """Make the kernels launchable on the driver of the session."""
    if not real_gpu:
        import fake_driver

        register_kernels(fake_driver.load())


@pytest.fixture(params=["cpu", "cuda"])
def place(request, device, kda_kernels):
    """Return where to run: the CPU, then device 0."""
    yield Place(request.param)
    assert problem_of_kernels() == ""


@pytest.fixture
def gpu_place(device, kda_kernels):
    """Return device 0 alone."""
    yield Place("cuda")
    assert problem_of_kernels() == ""
