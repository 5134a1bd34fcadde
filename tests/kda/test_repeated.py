"""The same call again, which is not checked a second time, and calls that only look like the same one."""

import numpy as np
import pytest
from kda.inputs import draw
from kda.oracle import kda as reference
from kda.oracle import relative_l2

import madspace
from madspace import Stream, Workspace, kda
from madspace.errors import ClosedError, WorkspaceError
from madspace.kda._memo import n_recalled

OUT = 4e-3


class Repeated:
    """A call on tensors, all of whose memory is given."""

    def __init__(self, device, **sizes):
        self.host = draw(**sizes)
        put = {n: madspace.asarray(x, device=device) if isinstance(x, np.ndarray) else x for n, x in self.host.items()}
        shape = self.host["v"].shape
        b, t, h, d = shape
        self.arguments = put | {
            "out": madspace.zeros(shape, self.host["v"].dtype, device=device),
            "final_state": madspace.zeros((b, h, d, d), np.float32, device=device),
            "workspace": Workspace(kda.get_workspace_size(b * t, h, b), device),
        }

    def __call__(self, **changes):
        """Spoil what is written, do the call, and return the relative error of its output."""
        given = self.arguments | changes
        given["out"].fill(np.nan, stream=changes.get("stream"))
        assert kda.fwd(**given) is given["out"]
        names = ("q", "k", "v", "g", "beta", "scale", "A_log", "dt_bias", "lower_bound")
        host = {name: given[name].numpy() if hasattr(given[name], "numpy") else given[name] for name in names}
        return relative_l2(given["out"].numpy(), reference(**host).out)


@pytest.fixture
def call(device, kda_kernels):
    """Return a call that was done once."""
    call = Repeated(device, t=20)
    assert call() < OUT
    return call


def test_it_is_the_same(call):
    before = n_recalled()
    for _ in range(3):
        assert call() < OUT
    assert n_recalled() == before + 3


def test_contents_are_not_remembered(call, device):
    call.arguments["v"].copy_from(np.flip(call.host["v"], 1).copy())
    assert call() < OUT


@pytest.mark.parametrize("change", [{"scale": 0.5}, {"lower_bound": -1.0}], ids=["scale", "lower_bound"])
def test_other_numbers(call, change):
    assert call(**change) < OUT
    assert call() < OUT


def test_zero_of_the_other_sign(device, kda_kernels):
    call = Repeated(device, t=2)

    def results(scale, **changes):
        call(scale=scale, **changes)
        return call.arguments["out"].numpy().tobytes()

    fresh = [results(scale, workspace=None) for scale in (0.0, -0.0)]
    assert fresh[0] != fresh[1]
    for _ in range(2):
        assert [results(scale) for scale in (0.0, -0.0)] == fresh


@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta", "A_log", "dt_bias", "out", "final_state", "workspace"])
def test_another_array(call, device, name):
    other = Repeated(device, t=20, seed=2).arguments[name]
    before = n_recalled()
    assert call(**{name: other}) < OUT
    assert n_recalled() == before
    assert call() < OUT


def test_without_what_there_was(call):
    assert call(workspace=None) < OUT
    assert call(final_state=None) < OUT
    assert call(use_qk_l2norm=False, scale=1e-3) > OUT  # as the reference has it
    assert call() < OUT


def test_with_what_there_was_not(call, device):
    state = madspace.zeros((1, 1, 64, 64), np.float32, device=device)
    assert call(initial_state=state) < OUT
    assert call(cu_seqlens=madspace.asarray(np.array([0, 20]), device=device)) < OUT
    assert call(validate=True) < OUT


def test_the_workspace_is_checked_each_time(call):
    workspace = call.arguments["workspace"]
    workspace.close()
    with pytest.raises(ClosedError):
        call()
    small = Workspace(128, workspace.device)
    with pytest.raises(WorkspaceError, match="too small"):
        call(workspace=small)
    small.require(kda.get_workspace_size(20, 1))
    assert call(workspace=small) < OUT


def test_an_input_as_the_output_is_found(call):
    for _ in range(2):
        with pytest.raises(ValueError, match="out: expected memory of its own, got memory shared with v"):
            kda.fwd(**call.arguments | {"out": call.arguments["v"]})
        assert call() < OUT


def test_on_another_stream(call, device):
    other = Stream(device)
    assert call(stream=other) < OUT
    other.synchronize()
    assert call() < OUT


def test_many_calls_in_turn(device, kda_kernels):
    calls = [Repeated(device, t=6 + i % 3, seed=i) for i in range(12)]
    for _ in range(2):
        assert max(call() for call in calls) < OUT
