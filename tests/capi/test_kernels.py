"""Modules, kernels, captures and graphs of the C API."""

import ctypes
import gc
import weakref

import pytest
from capi_table import extent, fill, parameters, refused

import madspace
from madspace.core.module import Module

ROOM = ctypes.byref(ctypes.c_void_p())
ONE = extent(1, 1, 1)


def test_launch(api, queue, fill_kernel, memory, words):
    fill(api, fill_kernel, queue, memory, 7)
    assert set(words(memory)) == {7}


def test_clusters_and_cooperative_grids(api, queue, fill_kernel, memory, words, fake):
    arguments = parameters(ctypes.c_void_p(memory), ctypes.c_uint(3), ctypes.c_uint(1024))
    api.kernel_launch_cluster(fill_kernel, extent(4, 1, 1), extent(32, 1, 1), extent(2, 1, 1), 0, 0, queue, arguments)
    api.kernel_launch_cluster(fill_kernel, extent(4, 1, 1), extent(32, 1, 1), None, 1, 0, queue, arguments)
    assert len(fake.log("cuLaunchKernelEx")) == 2
    assert words(memory)[0] == 3
    whole = fill_kernel, extent(4, 1, 1), extent(32, 1, 1), None, 1, 0, queue, arguments
    with fake.failing("cuLaunchKernelEx", code=701):
        assert refused("MS_ERROR_DRIVER", api.kernel_launch_cluster, *whole).startswith("cuLaunchKernelEx: ")
    for cluster in ((3, 1, 1), (0, 1, 1), (17, 1, 1)):
        refused(
            "MS_ERROR_ARGUMENT",
            api.kernel_launch_cluster,
            fill_kernel,
            extent(4, 1, 1),
            ONE,
            extent(*cluster),
            0,
            0,
            queue,
            arguments,
        )


@pytest.mark.parametrize(
    ("grid", "block", "shared", "told"),
    [
        ((0, 1, 1), (1, 1, 1), 0, "grid"),
        ((1, 65536, 1), (1, 1, 1), 0, "grid"),
        ((2**31, 1, 1), (1, 1, 1), 0, "grid"),
        ((1, 1, 1), (0, 1, 1), 0, "block"),
        ((1, 1, 1), (1025, 1, 1), 0, "block"),
        ((1, 1, 1), (32, 33, 1), 0, "at most 1024 threads"),
        ((1, 1, 1), (1, 1, 65), 0, "block"),
        ((1, 1, 1), (2**16, 2**16, 1), 0, "block"),
        ((1, 1, 1), (1, 1, 1), 2**31, "shared"),
    ],
)
def test_shapes_are_checked(api, queue, fill_kernel, memory, grid, block, shared, told):
    arguments = parameters(ctypes.c_void_p(memory), ctypes.c_uint(3), ctypes.c_uint(1024))
    message = refused(
        "MS_ERROR_ARGUMENT", api.kernel_launch, fill_kernel, extent(*grid), extent(*block), shared, queue, arguments
    )
    assert told in message


def test_parameters_are_checked(api, queue, fill_kernel):
    assert "3 addresses" in refused("MS_ERROR_ARGUMENT", api.kernel_launch, fill_kernel, ONE, ONE, 0, queue, None)
    missing = parameters(ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint())
    missing[1] = None
    assert "params[1]" in refused("MS_ERROR_ARGUMENT", api.kernel_launch, fill_kernel, ONE, ONE, 0, queue, missing)


def test_the_message_tells_the_launch(api, queue, fill_kernel, memory, fake):
    with fake.failing("cuLaunchKernel", code=701):
        arguments = parameters(ctypes.c_void_p(memory), ctypes.c_uint(3), ctypes.c_uint(1))
        message = refused(
            "MS_ERROR_DRIVER", api.kernel_launch, fill_kernel, extent(2, 1, 1), extent(64, 1, 1), 16, queue, arguments
        )
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)" in message
    assert "kernel ms_test_fill, grid (2, 1, 1), block (64, 1, 1), 16 bytes" in message
    assert "use fewer threads" in message
    assert api.last_driver_code() == 701


def test_images(api, queue, kernels_ptx):
    refused("MS_ERROR_ARGUMENT", api.module_load, kernels_ptx, 0, None, ROOM)
    refused("MS_ERROR_DRIVER", api.module_load, b"no code", 7, b"mine", ROOM)
    assert "mine" in api.last_error().decode()
    module = api.make("module_load", kernels_ptx, len(kernels_ptx), b"kernels")
    assert "ms_test_copy" in refused("MS_ERROR_KERNEL_IMAGE", api.kernel_get, module, b"nothing", ROOM)
    api.module_release(module)


def test_a_cpu_has_no_kernels(api, cpu, fill_kernel):
    for call in (api.kernel_load, lambda *of: api.kernel_allow_shared(*of, 1024)):
        message = refused("MS_ERROR_UNSUPPORTED", call, fill_kernel, cpu)
        assert message == "device: expected a CUDA device, got the CPU"


def test_kernels_of_python(api, gpu, queue, memory, kernels_ptx, words):
    module = Module(kernels_ptx)
    kernel = module["ms_test_fill"]
    alive = weakref.ref(module)
    from_kernel, from_module = api.make("kernel_from_object", kernel), api.make("module_from_object", module)
    other = api.make("kernel_get", from_module, b"ms_test_fill")
    del kernel, module
    gc.collect()
    assert alive() is not None
    for i, handle in enumerate((from_kernel, other)):
        api.kernel_load(handle, gpu)
        api.kernel_allow_shared(handle, gpu, 1024)
        fill(api, handle, queue, memory, 20 + i)
        assert words(memory)[0] == 20 + i
    alive().close()
    arguments = parameters(ctypes.c_void_p(memory), ctypes.c_uint(3), ctypes.c_uint(1))
    refused("MS_ERROR_CLOSED", api.kernel_launch, other, ONE, ONE, 0, queue, arguments)
    for handle in (from_kernel, other):
        api.kernel_release(handle)
    api.module_release(from_module)
    gc.collect()
    assert alive() is None
    refused("MS_ERROR_ARGUMENT", api.kernel_from_object, 3, ROOM)
    refused("MS_ERROR_ARGUMENT", api.module_from_object, 3, ROOM)


# ---- graphs ----


def test_a_capture_becomes_a_graph(api, gpu, queue, fill_kernel, memory, words):
    api.kernel_load(fill_kernel, gpu)
    capture = api.make("capture_begin", queue)
    fill(api, fill_kernel, queue, memory, 9)
    graph = api.make("capture_end", capture)
    assert words(memory)[0] == 0  # nothing has run
    for value in (1, 2):
        api.fill(gpu, memory, value, 4096, queue)
        api.graph_launch(graph, queue)
        assert words(memory)[0] == 9
    refused("MS_ERROR_HANDLE", api.capture_end, capture, ROOM)
    api.graph_release(graph)


def test_a_graph_keeps_its_kernels(api, gpu, queue, kernels_ptx, memory, words, fake):
    module = api.make("module_load", kernels_ptx, len(kernels_ptx), None)
    kernel = api.make("kernel_get", module, b"ms_test_fill")
    api.kernel_load(kernel, gpu)
    n = fake.counts()["library"]
    capture = api.make("capture_begin", queue)
    fill(api, kernel, queue, memory, 4)
    graph = api.make("capture_end", capture)
    api.kernel_release(kernel)
    api.module_release(module)
    gc.collect()
    assert fake.counts()["library"] == n
    api.graph_launch(graph, queue)
    assert words(memory)[0] == 4
    api.graph_release(graph)
    gc.collect()
    assert fake.counts()["library"] == n - 1


def test_memory_of_a_capture(api, gpu, queue, fill_kernel, words):
    api.kernel_load(fill_kernel, gpu)
    capture = api.make("capture_begin", queue)
    address = api.make("alloc", gpu, 4096, queue)
    fill(api, fill_kernel, queue, address, 6)
    api.free(gpu, address, queue)
    graph = api.make("capture_end", capture)
    api.graph_launch(graph, queue)
    assert words(address)[0] == 6  # the graph's, as long as it is there
    api.graph_release(graph)


def test_a_kernel_is_not_loaded_in_a_capture(api, queue, fill_kernel, memory):
    capture = api.make("capture_begin", queue)
    arguments = parameters(ctypes.c_void_p(memory), ctypes.c_uint(3), ctypes.c_uint(1))
    refused("MS_ERROR_CAPTURE", api.kernel_launch, fill_kernel, ONE, ONE, 0, queue, arguments)
    api.capture_release(capture)
    api.kernel_launch(fill_kernel, ONE, ONE, 0, queue, arguments)


def test_graphs_are_not_launched_into_captures(api, queue):
    graph = api.make("capture_end", api.make("capture_begin", queue))
    capture = api.make("capture_begin", queue)
    refused("MS_ERROR_CAPTURE", api.graph_launch, graph, queue)
    api.capture_release(capture)
    api.graph_launch(graph, queue)
    api.graph_release(graph)


@pytest.mark.parametrize("ordered", [False, True], ids=["plain", "with a buffer"])
def test_graphs_of_python(api, device, gpu, queue, stream, module, memory, words, ordered):
    kernel = module["ms_test_fill"]
    kernel.load(device)
    buffer = device.pool.allocate(4096, stream=stream)
    with madspace.capture(stream) as graph:
        kernel.launch(4, 256, buffer if ordered else buffer.ptr, 8, 1024, stream=stream)
    executable = graph.instantiate()
    handle = api.make("graph_from_object", executable)
    api.stream_wait(queue, api.make("device_stream", gpu))
    api.graph_launch(handle, queue)
    assert words(buffer.ptr)[0] == 8
    executable.close()
    refused("MS_ERROR_CLOSED", api.graph_launch, handle, queue)
    api.graph_release(handle)
    refused("MS_ERROR_ARGUMENT", api.graph_from_object, graph, ROOM)


def test_an_unjoined_fork_ends_the_capture_with_its_name(api, gpu, queue, memory):
    capture = api.make("capture_begin", queue)
    sides = (ctypes.c_void_p * 1)()
    api.stream_fork(queue, 1, sides)
    api.fill(gpu, memory, 1, 64, sides[0])
    assert "not joined" in refused("MS_ERROR_CAPTURE", api.capture_end, capture, ROOM)
    api.stream_release(sides[0])
    api.stream_synchronize(queue)
    api.capture_release(api.make("capture_begin", queue))
