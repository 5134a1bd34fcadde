"""Where a KDA test runs: on the CPU, and on the device with the same body."""

import pytest
from kda.places import Place


@pytest.fixture
def place(request, device):
    """Return where to run: the CPU, or device 0."""
    return Place(request.param)


def pytest_generate_tests(metafunc):
    """Run a test that says nothing else in both places."""
    if "place" in metafunc.fixturenames and not any(
        "place" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    ):
        metafunc.parametrize("place", ["cpu", "cuda"], indirect=True)
