"""Module and Kernel: loading, looking up, arguments checked against the kernel, launches in stream order."""

import ctypes
import gc

import numpy as np
import pytest
from madspace.core.kernel import Kernel
from madspace.core.module import Module, loaded_images
from madspace.core.stream import Stream
from madspace.errors import ClosedError, DeviceMismatchError, DriverError, KernelImageError, ShapeError
from raw_driver import current, current_context

N = 1024
NAMES = ("ms_test_axpy", "ms_test_copy", "ms_test_fill", "ms_test_spin")


@pytest.fixture
def module(device, kernels_ptx):
    """Return the module of the test kernels."""
    return Module(kernels_ptx)


@pytest.fixture
def words(device, stream):
    """Return a buffer of N uint32, zero, on its stream."""
    buffer = device.pool.allocate(4 * N, stream=stream)
    buffer.fill(0)
    return buffer


def content(buffer, dtype=np.uint32):
    return np.frombuffer(buffer.copy_to_host(), dtype)


def test_bytes_paths_and_other_buffers_load(device, kernels_ptx, tmp_path):
    path = tmp_path / "kernels.ptx"
    path.write_bytes(kernels_ptx)
    for image in (kernels_ptx, bytearray(kernels_ptx), memoryview(kernels_ptx), path, str(path)):
        assert Module(image).kernel_names == NAMES
    assert Module(path).name == str(path)
    assert str(len(kernels_ptx)) in Module(kernels_ptx).name


def test_kernels_are_looked_up_by_name(module):
    kernel = module["ms_test_fill"]
    assert (kernel.name, kernel.module) == ("ms_test_fill", module)
    assert kernel.param_sizes == (8, 4, 4)
    assert module.get("ms_test_axpy").param_sizes == (8, 8, 8, 4)
    assert "ms_test_fill" in repr(kernel)


def test_a_name_that_is_not_there_lists_what_is(module):
    with pytest.raises(KernelImageError, match=r"no kernel named 'other'; there are: ms_test_axpy, ms_test_copy") as caught:
        module["other"]
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize("image", [b"nonsense, but long enough to look at" * 10, b".version 8.0\n.nonsense\n"], ids=["bytes", "text"])
def test_what_is_no_image_is_refused(device, image):
    with pytest.raises(DriverError, match="cuLibraryLoadData"):
        Module(image)


def test_no_bytes_are_refused(device):
    with pytest.raises(ValueError, match="image: expected device code, got no bytes"):
        Module(b"")


def test_a_file_that_is_not_there(device, tmp_path):
    with pytest.raises(FileNotFoundError):
        Module(tmp_path / "none.cubin")


def test_kernels_come_from_modules_only():
    with pytest.raises(TypeError, match=r"use module\[name\]"):
        Kernel()


@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_every_end_unloads_once(fake, device, kernels_ptx, end):
    before = fake.counts()["library"]
    module = Module(kernels_ptx)
    if end == "close":
        module.close()
        module.close()
    elif end == "with":
        with module:
            pass
    del module
    gc.collect()
    assert len(fake.log("cuLibraryUnload")) == 1
    assert fake.counts()["library"] == before


def test_kernels_keep_their_module(fake, device, kernels_ptx):
    kernel = Module(kernels_ptx)["ms_test_spin"]
    gc.collect()
    assert not fake.log("cuLibraryUnload")
    kernel.launch(1, 1, 0, stream=device.default_stream)
    device.synchronize()


def test_a_closed_module_says_so(module, stream, words):
    kernel = module["ms_test_fill"]
    module.close()
    for use in (lambda: module["ms_test_fill"], lambda: module.kernel_names, kernel.attributes,
                lambda: kernel.launch(1, 1, words, 1, 1, stream=stream)):
        with pytest.raises(ClosedError, match="module: expected an open module"):
            use()


def test_a_launch_writes(module, stream, words):
    module["ms_test_fill"].launch(4, 256, words, 7, N, stream=stream)
    assert (content(words) == 7).all()


@pytest.mark.parametrize("number", [N - 1, np.uint32(N - 1), ctypes.c_uint32(N - 1)], ids=["int", "numpy", "ctypes"])
def test_numbers_of_several_kinds(module, stream, words, number):
    module["ms_test_fill"].launch(1, 32, words.ptr, -1, number, stream=stream)
    assert content(words).tolist() == [2**32 - 1] * (N - 1) + [0]


@pytest.mark.parametrize("a", [0.5, np.float64(0.5), ctypes.c_double(0.5)], ids=["float", "numpy", "ctypes"])
def test_floats_of_several_kinds(device, module, stream, a):
    y, x = (device.pool.allocate(8 * N, stream=stream) for _ in range(2))
    y.copy_from_host(np.ones(N))
    x.copy_from_host(np.arange(N, dtype=np.float64))
    module["ms_test_axpy"].launch(2, 128, y, x, a, N, stream=stream)
    assert (content(y, np.float64) == 1 + 0.5 * np.arange(N)).all()


def test_the_number_of_arguments_is_checked(module, stream, words):
    with pytest.raises(ShapeError, match="ms_test_fill takes 3 parameters, got 2"):
        module["ms_test_fill"].launch(1, 1, words, 1, stream=stream)


@pytest.mark.parametrize(
    ("bad", "error"),
    [(np.uint64(1), TypeError), ("1", TypeError), (None, TypeError), (ctypes.c_uint64(1), TypeError),
     (2**32, OverflowError), (-(2**31) - 1, OverflowError)],
    ids=repr,
)
def test_an_argument_that_does_not_fit_is_named(fake, module, stream, words, bad, error):
    fake.clear_log()
    with pytest.raises(error, match=r"args\[1\]: expected"):
        module["ms_test_fill"].launch(1, 1, words, bad, 1, stream=stream)
    assert "cuLaunchKernel" not in fake.names()


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


def test_dynamic_shared_memory_must_be_allowed_first(device, module, stream):
    kernel = module["ms_test_spin"]
    with pytest.raises(DriverError, match="cuLaunchKernel"):
        kernel.launch(1, 1, 0, stream=stream, shared=64 << 10)
    kernel.set_max_dynamic_shared(64 << 10)
    kernel.launch(1, 1, 0, stream=stream, shared=64 << 10)
    stream.synchronize()
    assert kernel.attributes().max_dynamic_shared_bytes == 64 << 10
    with pytest.raises(DriverError):
        kernel.set_max_dynamic_shared(1 << 30)


def test_attributes(module):
    attributes = module["ms_test_fill"].attributes()
    assert attributes.registers > 0
    assert attributes.local_bytes == attributes.shared_bytes == 0
    assert attributes.max_threads_per_block == 1024


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
def test_memory_of_another_device_is_refused(device, other_device, module, stream):
    foreign = other_device.pool.allocate(4 * N)
    with pytest.raises(DeviceMismatchError, match=r"args\[0\]: expected memory of device 0"):
        module["ms_test_fill"].launch(1, 1, foreign, 1, 1, stream=stream)


@pytest.mark.multi_gpu
def test_one_module_serves_all_devices_and_the_context_stays(device, other_device, module, stream, words):
    other = other_device.pool.allocate(4 * N)
    with current(1) as context:
        module["ms_test_fill"].launch(1, 256, words, 3, N, stream=stream)
        module["ms_test_fill"].launch(1, 256, other, 4, N, stream=other.stream)
        assert current_context() == int(context)
    assert (content(words) == 3).all()
    assert (content(other) == 4).all()


def test_users_modules_are_none_of_the_shipped_images(module):
    assert all(len(sha256) == 64 for sha256 in loaded_images().values())
    assert not any("ms_test" in name for name in loaded_images())


@pytest.mark.parametrize("action", ["load", "look up", "launch", "attributes"])
def test_each_failure_leaves_nothing(fake, device, kernels_ptx, module, stream, words, action):
    kernel, kept = module["ms_test_fill"], []
    actions = {
        "load": lambda: kept.append(Module(kernels_ptx)),
        "look up": lambda: module["ms_test_copy"],
        "launch": lambda: kernel.launch(1, 1, words, 1, 1, stream=stream),
        "attributes": kernel.attributes,
    }
    actions[action]()
    kept.clear()
    gc.collect()
    before = fake.counts()
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        assert fake.counts() == before, name
