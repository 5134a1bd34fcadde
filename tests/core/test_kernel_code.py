"""The code of a kernel on a device: loading, attributes, occupancy; never inside a capture."""

import pytest
from ptx_kernels import image, many
from raw_driver import capturing, current, current_context

from madspace.core.module import Module
from madspace.core.stream import Stream
from madspace.errors import CaptureError, ClosedError, DriverError


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


def test_the_carveout_is_kept(module):
    kernel = module["ms_test_fill"]
    for percent in (50, 0, 100):
        kernel.set_shared_carveout(percent)
        assert kernel.attributes().shared_carveout == percent
    for percent in (-2, 101):
        with pytest.raises(ValueError, match="percent: expected -1 to 100"):
            kernel.set_shared_carveout(percent)


def test_attributes_hold_for_a_loaded_kernel_as_well(fake, module):
    kernel = module["ms_test_fill"]
    kernel.set_max_dynamic_shared(64 << 10)
    assert "cuFuncSetAttribute" not in fake.names()
    kernel.load()
    kernel.set_max_dynamic_shared(65 << 10)
    assert fake.names()[-3:] == ["cuCtxPushCurrent", "cuFuncSetAttribute", "cuCtxPopCurrent"]


def test_occupancy(device, module):
    kernel = module["ms_test_fill"]
    found = kernel.occupancy(256)
    assert found.blocks_per_multiprocessor >= 1
    assert 0 < found.fraction <= 1
    assert 32 <= found.suggested_block <= 1024
    assert found.suggested_grid >= device.multiprocessor_count
    assert found.active_clusters is None
    assert kernel.occupancy((16, 16)).blocks_per_multiprocessor == found.blocks_per_multiprocessor
    assert kernel.occupancy(256, shared=40 << 10).blocks_per_multiprocessor <= found.blocks_per_multiprocessor


def test_occupancy_with_clusters(module):
    assert module["ms_test_fill"].occupancy(128, cluster=2).active_clusters >= 1
    with pytest.raises(ValueError, match="cluster: expected"):
        module["ms_test_fill"].occupancy(128, cluster=17)


def test_a_kernel_is_loaded_once_per_device(fake, module, stream):
    kernel = module["ms_test_spin"]
    fake.clear_log()
    for _ in range(3):
        kernel.launch(1, 1, 0, stream=stream)
    assert fake.names().count("cuFuncLoad") == 1
    fake.clear_log()
    kernel.load()
    assert "cuFuncLoad" not in fake.names()


@pytest.mark.multi_gpu
def test_loading_leaves_the_context_alone(device, other_device, module):
    with current(1) as context:
        module["ms_test_spin"].load(device)
        module["ms_test_copy"].load(other_device)
        assert module["ms_test_fill"].param_sizes == (8, 4, 4)
        assert current_context() == int(context)


def test_the_first_launch_is_refused_in_a_capture_which_goes_on(module, stream, words):
    kernel = module["ms_test_fill"]
    with capturing(stream):
        for use in (kernel.launch, kernel.bind):
            with pytest.raises(
                CaptureError, match=r"kernel ms_test_fill is not loaded on device 0 yet: call its load\(\)"
            ):
                use(1, 1, words, 1, 1, stream=stream)
    kernel.load()
    bound = kernel.bind(1, 1, words, 1, 1, stream=stream)
    with capturing(stream):
        kernel.launch(1, 1, words, 1, 1, stream=stream)
        bound()
    stream.synchronize()


def test_loading_does_not_break_the_capture_of_another_stream(device, kernels_ptx, stream, words):
    with capturing(Stream(device)):
        module = Module(kernels_ptx)
        module["ms_test_fill"].launch(1, 1, words, 1, 1, stream=stream)
    assert bytes(words.copy_to_host())[:4] == b"\1\0\0\0"


@pytest.mark.parametrize("n", [0, 1, 2, 16, 64])
def test_parameter_sizes(device, n):
    assert Module(image(many(n)))[f"many_{n}"].param_sizes == (8,) * n


def test_a_closed_module_refuses(module):
    kernel = module["ms_test_fill"]
    module.close()
    for use in (
        kernel.load,
        kernel.attributes,
        lambda: kernel.param_sizes,
        lambda: kernel.occupancy(32),
        lambda: kernel.set_shared_carveout(10),
    ):
        with pytest.raises(ClosedError, match="module: expected an open module"):
            use()


@pytest.mark.parametrize("action", ["load", "attributes", "occupancy", "carveout"])
def test_each_failure_leaves_nothing(fake, kernels_ptx, module, action):
    actions = {
        "load": lambda: module["ms_test_fill"].load(),
        "attributes": module["ms_test_copy"].attributes,
        "occupancy": lambda: module["ms_test_axpy"].occupancy(32, cluster=2),
        "carveout": lambda: module["ms_test_fill"].set_shared_carveout(20),
    }
    actions[action]()
    before = fake.counts()
    for name, error in fake.each_failure(actions[action]):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        assert fake.counts() == before, name
