"""The CUDA kernels lane by lane on the host: every variant, and that the machine notices what a GPU would suffer."""

import pytest
import warp_machine
from kda.places import Place, register_kernels
from kda.test_sanitize import CASES, check_case

pytestmark = pytest.mark.needs("x86_64")


@pytest.fixture
def machine(device, fake, kda_kernels):
    """Return device 0, whose kernels run on the warp machine."""
    register_kernels(fake)
    yield Place("cuda")
    assert warp_machine.problem() == ""


@pytest.mark.parametrize("name", CASES)
def test_case(machine, name):
    check_case(machine, name)
