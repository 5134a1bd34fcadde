"""Device: identity, properties, names of devices, and the caller's context left alone."""

import pickle
import re
import threading

import pytest
from raw_driver import current, current_context

from madspace.core.device import Device, as_device, device_count
from madspace.errors import DriverError


def test_one_object_per_device(device):
    assert Device(0) is device
    assert Device(device_id=0) is device
    assert pickle.loads(pickle.dumps(device)) is device
    assert {device: 1}[Device(0)] == 1
    assert repr(device) == "Device(0)"
    assert device.id == 0


def test_one_object_in_all_threads(device):
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(Device(0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one is device for one in seen)
    assert len(seen) == 8


@pytest.mark.multi_gpu
def test_devices_differ(device, other_device):
    assert device != other_device
    assert device.uuid != other_device.uuid
    assert device.pci_bus_id != other_device.pci_bus_id


def test_equality_with_other_types(device):
    assert device != 0
    assert device != "cuda"


def test_properties(device):
    assert device.name
    assert device.compute_capability >= (8, 0)
    assert device.multiprocessor_count > 0
    assert device.max_shared_per_multiprocessor >= device.max_shared_per_block >= 48 * 1024
    assert 0 < device.free_memory <= device.total_memory
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", device.uuid)
    assert re.fullmatch(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d", device.pci_bus_id)


def test_count(device):
    assert device_count() >= 1
    with pytest.raises(DriverError, match=r"cuDeviceGet: CUDA_ERROR_INVALID_DEVICE") as caught:
        Device(device_count())
    assert caught.value.code == 101


@pytest.mark.parametrize("bad", [True, 1.0, "0", None], ids=repr)
def test_a_number_of_another_type_is_refused(device, bad):
    with pytest.raises(TypeError, match="device_id: expected an int"):
        Device(bad)


@pytest.mark.parametrize("bad", [-1, 2**31, 2**70], ids=repr)
def test_a_number_out_of_range_is_refused(device, bad):
    with pytest.raises(DriverError, match=re.escape(str(bad))) as caught:
        Device(bad)
    assert caught.value.code == 101


@pytest.mark.parametrize("name", [0, "cuda", "cuda:0"], ids=repr)
def test_what_names_a_device(device, name):
    assert as_device(name) is device
    assert as_device(device) is device


@pytest.mark.parametrize("bad", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0:1", "cuda:٣", ""], ids=repr)
def test_a_text_that_names_no_device_is_refused(device, bad):
    with pytest.raises(ValueError, match="device: expected 'cuda' or 'cuda:<number>'"):
        as_device(bad)


@pytest.mark.parametrize("bad", [None, True, 0.0, b"cuda"], ids=repr)
def test_a_type_that_names_no_device_is_refused(device, bad):
    with pytest.raises(TypeError, match="device: expected"):
        as_device(bad)


def use_all(device):
    for name in ("name", "compute_capability", "total_memory", "free_memory", "uuid", "pci_bus_id"):
        getattr(device, name)
    device.synchronize()


def test_no_context_stays_no_context(device):
    use_all(device)
    assert current_context() == 0


@pytest.mark.multi_gpu
def test_another_current_context_stays_current(device, other_device):
    with current(1) as context:
        use_all(device)
        assert current_context() == int(context)
    assert current_context() == 0


@pytest.mark.multi_gpu
def test_free_memory_is_that_of_the_device_not_of_the_context(fake, device, other_device):
    from cuda.bindings import driver
    from raw_driver import checked

    before = device.free_memory, other_device.free_memory
    with current(1):
        block = checked(driver.cuMemAlloc(1 << 20))
        assert (device.free_memory, other_device.free_memory) == (before[0], before[1] - (1 << 20))
        checked(driver.cuMemFree(block))


def test_synchronize_waits_for_every_stream(device, stream, delay, block):
    delay(stream)
    block.fill(7, stream)
    assert not stream.query()
    device.synchronize()
    assert stream.query()


def test_default_stream_and_pool_are_made_once(device):
    assert device.default_stream is device.default_stream
    assert device.pool is device.pool
