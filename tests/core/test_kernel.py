"""Kernel.launch: shapes, stream order, devices, failures."""

import numpy as np
import pytest
from raw_driver import ForeignStream, current, current_context

from madspace.core.stream import Stream
from madspace.errors import ClosedError, DeviceMismatchError, DriverError

N = 1024


def content(buffer, dtype=np.uint32):
    return np.frombuffer(buffer.copy_to_host(), dtype)


def test_a_launch_writes(module, stream, words):
    module["ms_test_fill"].launch(4, 256, words, 7, N, stream=stream)
    assert (content(words) == 7).all()


@pytest.mark.parametrize("extent", [0, -1, (), (1, 1, 1, 1), (1, 2**16), (1, 1, 2**16), 2**31, (0, 1)], ids=repr)
def test_a_grid_out_of_range_is_refused(module, stream, extent):
    with pytest.raises(ValueError, match="grid: expected"):
        module["ms_test_spin"].launch(extent, 1, 0, stream=stream)


@pytest.mark.parametrize("extent", [0, 1025, (32, 33), (1, 1, 65), (1, 1, 1, 1)], ids=repr)
def test_a_block_out_of_range_is_refused(module, stream, extent):
    with pytest.raises(ValueError, match="block: expected"):
        module["ms_test_spin"].launch(1, extent, 0, stream=stream)


def test_extents_reach_the_driver(fake, module, stream):
    module["ms_test_spin"].launch((3, 2), (8, 4, 2), 0, stream=stream, shared=1024)
    (call,) = fake.log("cuLaunchKernel") or fake.log("cuLaunchKernelEx")
    assert (call.args["grid"], call.args["block"], call.args["shared"]) == ("3,2,1", "8,4,2", 1024)
    assert call.args["stream"] == stream.handle


@pytest.mark.parametrize("extent", [1.0, "1", [1], (1, 1.0)], ids=repr)
@pytest.mark.parametrize("what", ["grid", "block", "cluster"])
def test_an_extent_that_is_no_number_is_refused(module, stream, what, extent):
    shape = {"grid": 1, "block": 1, "cluster": 1} | {what: extent}
    with pytest.raises(TypeError, match=f"{what}: expected an int, or a tuple"):
        module["ms_test_spin"].launch(shape["grid"], shape["block"], 0, stream=stream, cluster=shape["cluster"])


def test_numpy_numbers_are_extents(fake, module, stream):
    module["ms_test_spin"].launch((np.int64(3), 2), np.uint8(8), 0, stream=stream, shared=np.int32(16))
    (call,) = fake.log("cuLaunchKernel")
    assert (call.args["grid"], call.args["block"], call.args["shared"]) == ("3,2,1", "8,1,1", 16)


@pytest.mark.parametrize(("shared", "error"), [(-1, ValueError), (2**31, ValueError), (1.5, TypeError)], ids=repr)
def test_shared_memory_out_of_range_is_refused(module, stream, shared, error):
    with pytest.raises(error, match="shared: expected"):
        module["ms_test_spin"].launch(1, 1, 0, stream=stream, shared=shared)


def test_a_refused_launch_tells_what_was_asked_for(module, stream):
    with pytest.raises(
        DriverError, match=r"cuLaunchKernel: .*kernel ms_test_spin, grid \(2, 1, 1\), block \(8, 4, 1\), 66000 bytes"
    ):
        module["ms_test_spin"].launch(2, (8, 4), 0, stream=stream, shared=66000)


def test_clusters_and_cooperative_grids_reach_the_driver(fake, module, stream):
    module["ms_test_spin"].launch((4, 2), 32, 0, stream=stream, cluster=(2, 2), cooperative=True, shared=64)
    (call,) = fake.log("cuLaunchKernelEx")
    assert (call.args["grid"], call.args["block"], call.args["cluster"]) == ("4,2,1", "32,1,1", "2,2,1")
    assert (call.args["cooperative"], call.args["attributes"], call.args["shared"]) == (1, 2, 64)
    assert call.args["stream"] == stream.handle


@pytest.mark.parametrize(
    "how", [{"cluster": 2}, {"cooperative": True}, {"cluster": (2, 1, 1), "cooperative": True}], ids=repr
)
def test_clusters_and_cooperative_grids_run(module, stream, words, how):
    module["ms_test_fill"].launch(4, 128, words, 6, N, stream=stream, **how)
    assert (content(words) == 6).all()


@pytest.mark.parametrize("cluster", [3, (1, 2), 0, 17, (4, 4, 2)], ids=repr)
def test_a_cluster_that_does_not_divide_the_grid_is_refused(module, stream, cluster):
    with pytest.raises(ValueError, match="cluster: expected"):
        module["ms_test_spin"].launch((4, 1), 32, 0, stream=stream, cluster=cluster)


def test_large_clusters_must_be_allowed_first(module, stream, words):
    kernel = module["ms_test_fill"]
    with pytest.raises(DriverError, match=r"cuLaunchKernelEx: .*cluster \(16, 1, 1\)"):
        kernel.launch(16, 32, words, 6, N, stream=stream, cluster=16)
    kernel.allow_large_clusters()
    kernel.launch(16, 32, words, 6, N, stream=stream, cluster=16)
    assert (content(words) == 6).all()


def test_a_cooperative_grid_that_does_not_fit_is_refused(module, stream):
    with pytest.raises(DriverError, match=r"cuLaunchKernelEx: .*COOPERATIVE_LAUNCH_TOO_LARGE.*cooperative"):
        module["ms_test_spin"].launch(2**20, 32, 0, stream=stream, cooperative=True)


def test_a_launch_is_behind_a_late_write_of_its_argument(device, module, stream, words, delay):
    late = Stream(device)
    delay(late)
    words.fill(1, stream=late)
    out = device.pool.allocate(4 * N, stream=stream)
    module["ms_test_copy"].launch(1, 256, out, words, N, stream=stream)
    assert (content(out) == 0x01010101).all()


def test_what_follows_a_late_launch_is_behind_it(device, module, words, delay):
    late = Stream(device)
    delay(late)
    module["ms_test_fill"].launch(1, 256, words, 5, N, stream=late)
    assert (content(words) == 5).all()


def test_the_free_of_an_argument_is_behind_a_late_launch(device, module, stream, words, delay):
    late = Stream(device)
    delay(late)
    out = device.pool.allocate(4 * N, stream=stream)
    module["ms_test_copy"].launch(1, 256, out, words, N, stream=late)
    words.close()
    device.pool.allocate(4 * N, stream=stream).fill(9)
    assert (content(out) == 0).all()


def test_a_closed_stream_or_buffer_is_refused(device, module, stream, words):
    kernel = module["ms_test_fill"]
    closed = Stream(device)
    closed.close()
    with pytest.raises(ClosedError, match="stream"):
        kernel.launch(1, 1, words, 1, 1, stream=closed)
    words.close()
    with pytest.raises(ClosedError, match="buffer"):
        kernel.launch(1, 1, words, 1, 1, stream=stream)


@pytest.mark.multi_gpu
def test_one_module_serves_all_devices_and_the_context_stays(device, other_device, module, stream, words):
    other = other_device.pool.allocate(4 * N)
    with current(1) as context:
        module["ms_test_fill"].launch(1, 256, words, 3, N, stream=stream)
        module["ms_test_fill"].launch(1, 256, other, 4, N, stream=other.stream)
        assert current_context() == int(context)
    assert (content(words) == 3).all()
    assert (content(other) == 4).all()


def test_foreign_streams_serve(device, module, words):
    foreign = ForeignStream()
    for stream in (foreign, foreign.handle):
        words.fill(0)
        module["ms_test_fill"].launch(1, 256, words, 5, N, stream=stream)
        assert (content(words) == 5).all()
    device.synchronize()
    foreign.destroy()


@pytest.mark.multi_gpu
def test_a_bare_handle_is_of_the_device_of_the_memory(device, other_device, module):
    there = other_device.pool.allocate(4 * N)
    foreign = ForeignStream(1)
    module["ms_test_fill"].launch(1, 256, there, 5, N, stream=foreign.handle)
    assert (content(there) == 5).all()
    there.close()
    other_device.synchronize()
    foreign.destroy()


@pytest.mark.multi_gpu
def test_memory_of_another_device_is_refused(device, other_device, module, stream):
    foreign = other_device.pool.allocate(4 * N)
    with pytest.raises(DeviceMismatchError, match=r"args\[0\]: expected memory of device 0"):
        module["ms_test_fill"].launch(1, 1, foreign, 1, 1, stream=stream)


@pytest.mark.parametrize("how", [{}, {"cluster": 1}], ids=["plain", "cluster"])
def test_each_failure_of_a_launch_leaves_nothing(fake, module, stream, words, how):
    kernel = module["ms_test_fill"]
    other = Stream(stream.device)
    kernel.launch(1, 1, words, 1, 1, stream=other, **how)
    before = fake.counts()
    for name, error in fake.each_failure(lambda: kernel.launch(1, 1, words, 1, 1, stream=stream, **how)):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        assert fake.counts() == before, name


def test_a_failure_to_note_one_use_does_not_lose_the_others(fake, device, module, words):
    late = Stream(device)
    other = device.pool.allocate(words.nbytes)
    kernel = module["ms_test_copy"]
    kernel.load()
    with fake.failing("cuEventRecord", nth=3):  # two come before the launch
        fake.clear_log()
        with pytest.raises(DriverError):
            kernel.launch(4, 256, words, other, N, stream=late)
    names = fake.names()
    launched = next(i for i, name in enumerate(names) if name.startswith("cuLaunchKernel"))
    assert names[launched:].count("cuEventRecord") == 2
