"""Which stream each call uses: its argument, that of the block, the framework's (test_frameworks.py), the device's."""

import ctypes

import numpy as np
import pytest
from dlpack_structs import table_of

import madspace
from madspace import Stream, asarray, zeros


def used(fake, call):
    """Return the streams of one kind of call since the log was cleared."""
    return {entry.args["stream"] for entry in fake.log(call)}


def test_every_call_that_names_no_stream_uses_it(fake, device, stream, words, module):
    other = device.pool.allocate(4096, stream=words.stream)
    pinned = madspace.PinnedBuffer(4096)
    tensor = zeros(1024, np.uint32, device=device)
    workspace = madspace.Workspace(16, device)
    graph = madspace.Graph(device)
    executable = graph.instantiate()
    kernel = module["ms_test_fill"]
    kernel.load()
    mine = Stream(device)
    calls = {
        "zeros": (lambda: zeros(3, device=device), "cuMemsetD8Async"),
        "empty": (lambda: madspace.empty(3, device=device), "cuMemAllocFromPoolAsync"),
        "asarray": (lambda: asarray(np.zeros(3), device=device), "cuMemcpyHtoDAsync"),
        "asarray copy": (lambda: asarray(tensor, copy=True), "cuMemcpyDtoDAsync"),
        "Tensor.fill": (lambda: tensor.fill(3), "cuMemsetD32Async"),
        "Tensor.copy": (lambda: tensor.copy(), "cuMemcpyDtoDAsync"),
        "Tensor.copy_from": (lambda: tensor.copy_from(np.zeros(1024, np.uint32)), "cuMemcpyHtoDAsync"),
        "Tensor.numpy": (lambda: tensor.numpy(), "cuMemcpyDtoHAsync"),
        "MemoryPool.allocate": (lambda: device.pool.allocate(8), "cuMemAllocFromPoolAsync"),
        "Buffer.fill": (lambda: words.fill(0), "cuMemsetD8Async"),
        "Buffer.copy_from": (lambda: words.copy_from(other), "cuMemcpyDtoDAsync"),
        "Buffer.copy_to_host": (lambda: words.copy_to_host(), "cuMemcpyDtoHAsync"),
        "Buffer.copy_from_host": (lambda: words.copy_from_host(bytes(4096)), "cuMemcpyHtoDAsync"),
        "PinnedBuffer.copy_to": (lambda: pinned.copy_to(words), "cuMemcpyHtoDAsync"),
        "PinnedBuffer.copy_from": (lambda: pinned.copy_from(words), "cuMemcpyDtoHAsync"),
        "Workspace": (lambda: madspace.Workspace(16, device), "cuMemAllocFromPoolAsync"),
        "Workspace.require": (lambda: workspace.require(1 << 20), "cuMemAllocFromPoolAsync"),
        "GraphExec.launch": (lambda: executable.launch(), "cuGraphLaunch"),
        "GraphExec.upload": (lambda: executable.upload(), "cuGraphUpload"),
        "Kernel.launch": (lambda: kernel.launch(1, 32, words, 7, 1024), "cuLaunchKernel"),
        "kernel.bind": (lambda: kernel.bind(1, 32, words, 7, 1024)(), "cuLaunchKernel"),
    }
    for name, (call, entry) in calls.items():
        fake.clear_log()
        with madspace.stream(mine):
            call()
        assert used(fake, entry) == {mine.handle}, name


def test_a_stream_argument_comes_first(fake, device):
    streams = [Stream(device), Stream(device)]
    fake.clear_log()
    with madspace.stream(streams[0]):
        zeros(3, device=device, stream=streams[1])
    assert used(fake, "cuMemsetD8Async") == {streams[1].handle}


def test_a_launch_without_a_stream_uses_the_devices_own(fake, device, module, words):
    module["ms_test_fill"].launch(1, 32, words, 7, 1024)
    assert used(fake, "cuLaunchKernel") == {device.default_stream.handle}


@pytest.mark.multi_gpu
def test_a_launch_without_a_stream_runs_where_its_memory_is(fake, other_device, module):
    module["ms_test_fill"].launch(1, 32, other_device.pool.allocate(4096), 7, 1024)
    assert used(fake, "cuLaunchKernel") == {other_device.default_stream.handle}


def test_exports_tell_the_chosen_stream(device, stream):
    table = table_of(madspace.Tensor)
    told = ctypes.c_void_p()
    with madspace.stream(stream):
        assert table.current_stream(2, 0, ctypes.byref(told)) == 0
    assert told.value == stream.handle


@pytest.mark.parametrize("kind", ["int", "protocol", "torch"])
def test_the_default_stream_of_other_libraries_is_the_legacy_one(fake, device, kind):
    class Protocol:
        def __cuda_stream__(self):
            return 0, 0

    class Torch:
        device_index = 0
        cuda_stream = 0

    given = {"int": 0, "protocol": Protocol(), "torch": Torch()}[kind]
    tensor = zeros(3, device=device)
    fake.clear_log()
    tensor.fill(1.0, stream=given)
    with madspace.stream(given):
        tensor.fill(2.0)
    assert used(fake, "cuMemsetD2D32Async") | used(fake, "cuMemsetD32Async") == {1}
    assert tensor.numpy().tolist() == [2.0] * 3


def test_an_export_is_refused_on_stream_0_alone(device):
    tensor = zeros(3, device=device)
    for handle in (1, 2, device.default_stream.handle):
        tensor.__dlpack__(stream=handle)
    with pytest.raises(ValueError, match="stream: expected -1, 1, 2, a handle or None"):
        tensor.__dlpack__(stream=0)
