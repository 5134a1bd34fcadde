"""set_allocator(): other libraries' memory in our buffers."""

import ctypes

import pytest
from contents import byte
from cuda.bindings import driver
from raw_driver import capturing, checked, current, current_context

import madspace
from madspace.core.stream import Stream
from madspace.errors import MadspaceWarning, OutOfMemoryError

N = 4096
RAW_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
RAW_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


class Other:
    """Another library's allocator: the driver's current pool, and a list of what it was asked for."""

    def __init__(self):
        self.calls = []

    def allocate(self, nbytes, device_id, stream):
        ptr = int(checked(driver.cuMemAllocAsync(nbytes, stream)))
        self.calls.append(("allocate", ptr, nbytes, device_id, stream))
        return ptr

    def free(self, ptr, nbytes, device_id, stream):
        self.calls.append(("free", ptr, nbytes, device_id, stream))
        checked(driver.cuMemFreeAsync(ptr, stream))

    def names(self):
        return [call[0] for call in self.calls]


class Raw(Other):
    """The same as C functions."""

    def __init__(self):
        super().__init__()
        self.functions = RAW_ALLOCATE(super().allocate), RAW_FREE(super().free)
        self.allocate, self.free = (ctypes.cast(function, ctypes.c_void_p).value for function in self.functions)


@pytest.fixture(autouse=True)
def own_pool_again(device):
    """Leave the own pool installed."""
    yield
    madspace.set_allocator(0, None)


@pytest.fixture(params=[Other, Raw], ids=["callables", "C functions"])
def other(request, device):
    """Return an allocator that is installed."""
    other = request.param()
    madspace.set_allocator(device, other.allocate, other.free)
    return other


@pytest.mark.parametrize("end", ["close", "drop"])
def test_it_serves_buffers(device, stream, other, end):
    buffer = device.pool.allocate(N, stream=stream)
    ptr = buffer.ptr
    buffer.fill(7)
    assert byte(buffer) == 7
    if end == "close":
        buffer.close()
        buffer.close()
    del buffer
    asked = (ptr, N, 0, stream.handle)
    assert other.calls == [("allocate", *asked), ("free", *asked)]


def test_it_serves_tensors_and_counts_in_the_pool(device, other):
    before = madspace.memory_stats()
    with madspace.statistics() as scope:
        tensor = madspace.zeros(1000, device=device)
        assert madspace.memory_stats().current_bytes == before.current_bytes + 8000
        del tensor
    assert madspace.memory_stats().current_bytes == before.current_bytes
    assert (scope.total_bytes, scope.current_bytes) == (8000, 0)
    assert other.names() == ["allocate", "free"]


def test_pools_of_ones_own_and_empty_buffers_stay_as_they_are(device, other):
    madspace.MemoryPool().allocate(N).close()
    device.pool.allocate(0).close()
    assert other.calls == []


def test_a_buffer_goes_back_to_whom_it_came_from(device, other):
    before = device.pool.allocate(N)
    second = Other()
    madspace.set_allocator("cuda:0", second.allocate, second.free)
    between = device.pool.allocate(N)
    madspace.set_allocator(0, None)
    after = device.pool.allocate(N)
    for buffer in (after, between, before):
        buffer.close()
    assert other.names() == second.names() == ["allocate", "free"]


def test_the_free_comes_behind_other_streams(device, stream, other, delay):
    late = Stream(device)
    delay(late)
    buffer, target = device.pool.allocate(N, stream=stream), device.pool.allocate(N, stream=late)
    buffer.fill(5)
    target.copy_from(buffer, stream=late)
    buffer.close()
    again = device.pool.allocate(N, stream=stream)
    again.fill(6)  # may well be the same memory
    assert byte(target) == 5


def test_the_context_is_current_in_both(device):
    seen = []
    other = Other()

    def free(*args):
        seen.append(current_context())
        other.free(*args)

    madspace.set_allocator(0, lambda *args: seen.append(current_context()) or other.allocate(*args), free)
    before = current_context()
    device.pool.allocate(N).close()
    assert len(seen) == 2
    assert seen[0] == seen[1] != 0
    assert current_context() == before


def test_the_limit_of_the_pool_holds(device, other):
    device.pool.limit = device.pool.stats().current_bytes + N
    try:
        with pytest.raises(OutOfMemoryError, match="limit"):
            device.pool.allocate(N + 1)
    finally:
        device.pool.limit = None
    assert other.calls == []


def test_what_allocate_raises_comes_out(device):
    def allocate(nbytes, device_id, stream):
        raise KeyError(nbytes)

    before = madspace.memory_stats()[:6]
    madspace.set_allocator(0, allocate, print)
    with pytest.raises(KeyError, match=str(N)):
        device.pool.allocate(N)
    assert madspace.memory_stats()[:6] == before


def test_no_memory_is_an_error(device):
    none = RAW_ALLOCATE(lambda nbytes, device_id, stream: None)
    free = RAW_FREE(lambda *args: None)
    pointers = [ctypes.cast(function, ctypes.c_void_p).value for function in (none, free)]
    for functions in ((lambda *args: 0, print), pointers):
        madspace.set_allocator(0, *functions)
        with pytest.raises(OutOfMemoryError, match=f"had no {N} bytes on device 0"):
            device.pool.allocate(N)


def test_a_wrong_answer_is_an_error(device):
    freed = []
    madspace.set_allocator(0, lambda *args: "x", print)
    with pytest.raises(TypeError, match="allocate: expected it to return an address, an int, got str"):
        device.pool.allocate(N)
    madspace.set_allocator(0, lambda *args: 0x7F0010, lambda *args: freed.append(args[0]))
    with pytest.raises(ValueError, match="aligned to 256 bytes, got 0x7f0010"):
        device.pool.allocate(N)
    assert freed == [0x7F0010]
    for address in (-256, 2**64):
        madspace.set_allocator(0, lambda *args, address=address: address, print)
        with pytest.raises(ValueError, match=f"allocate: expected it to return an address, got {address}"):
            device.pool.allocate(N)


@pytest.mark.parametrize("end", ["close", "drop"])
def test_what_free_raises_is_a_warning(device, end):
    check_raising_free(device, end, KeyError("mine"))


@pytest.mark.fake
@pytest.mark.parametrize("end", ["close", "drop"])
def test_leaving_from_free_is_a_warning(device, end):
    check_raising_free(device, end, SystemExit("mine"))


def check_raising_free(device, end, raised):
    """Let an allocator's free raise at the end of a buffer."""
    other, broken = Other(), []

    def free(*args):
        broken.append(args)
        raise raised

    madspace.set_allocator(0, other.allocate, free)
    kept = [device.pool.allocate(N)]
    act = kept.clear if end == "drop" else kept[0].close
    with pytest.warns(MadspaceWarning, match=f"free: .* raised {type(raised).__name__}: .*mine.*; {N} bytes"):
        act()
    with current():
        for args in broken:
            other.free(*args)


def test_captures_are_left_alone(device, stream, other):
    buffer = device.pool.allocate(N, stream=stream)
    with capturing(stream):
        with pytest.raises(madspace.CaptureError, match="out="):
            device.pool.allocate(N, stream=stream)
        buffer.close()
        assert other.names() == ["allocate"]
    device.pool.allocate(N).close()
    assert sorted(other.names()) == ["allocate", "allocate", "free", "free"]


@pytest.mark.parametrize(
    "functions", [(print,), (print, 5), (5, print), (None, print), ("x", "y"), (True, True)], ids=repr
)
def test_both_must_be_of_one_kind(functions):
    with pytest.raises(TypeError, match="allocate, free: expected two callables, two addresses"):
        madspace.set_allocator(0, *functions)


def test_addresses_are_checked():
    with pytest.raises(ValueError, match="allocate: expected the address of a C function, got 0"):
        madspace.set_allocator(0, 0, 0)


def test_each_failure_of_an_allocation_leaves_nothing(fake, device, stream, block):
    live, kept = [], []
    madspace.set_allocator(0, lambda *args: live.append(1) or int(block.ptr), lambda *args: live.pop())
    before = madspace.memory_stats().current_count
    for name, error in fake.each_failure(lambda: kept.append(device.pool.allocate(N, stream=stream))):
        assert isinstance(error, madspace.DriverError), name
        del error
        assert (live, kept) == ([], []), name
        assert madspace.memory_stats().current_count == before
    kept.clear()
    assert live == []
