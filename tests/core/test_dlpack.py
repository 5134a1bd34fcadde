"""__dlpack__ and its keywords, round trips through NumPy, and the order of streams in an exchange."""

import gc
import subprocess
import weakref

import numpy as np
import pytest
from dlpack_structs import capsule_name, delete, managed_of, read, rename_capsule
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from raw_driver import ForeignStream

from madspace.core.creation import asarray, from_dlpack, zeros

COPIED = 2
V1 = (1, 0)


def basic_dtypes():
    return st.sampled_from(["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])


@st.composite
def strided_arrays(draw):
    """Draw views of up to 5 dimensions: cut, stepped, reversed, transposed, repeated."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    count = int(np.prod(shape))
    array = np.arange(count).astype(draw(basic_dtypes())).reshape(shape)
    if shape:
        array = array[draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=5))]
    array = np.asarray(array).transpose(draw(st.permutations(range(np.ndim(array)))))
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.integers(1, 3)), *array.shape))
    return array


@settings(derandomize=True, max_examples=300, deadline=None)
@given(strided_arrays())
def test_any_numpy_view_comes_in_as_it_is(array):
    tensor = asarray(array)
    assert tensor.shape == array.shape
    assert tensor.dtype == array.dtype
    assert tensor.readonly is not array.flags.writeable
    assert tensor.is_contiguous == array.flags.c_contiguous
    back = tensor.numpy()
    assert back.dtype == array.dtype
    assert back.flags.writeable == array.flags.writeable
    np.testing.assert_array_equal(back, array)
    if array.size:
        assert tensor.ptr == array.__array_interface__["data"][0]
        assert back.strides == array.strides or array.size == 1 or 1 in array.shape


@settings(derandomize=True, max_examples=300, deadline=None)
@given(strided_arrays())
def test_capsules_say_what_the_tensor_is(array):
    tensor = asarray(array)
    if any(step < 0 for step in tensor.strides):
        with pytest.raises(BufferError, match="expected no negative stride"):
            tensor.__dlpack__(max_version=V1)
        return
    capsule = tensor.__dlpack__(max_version=V1)
    np.testing.assert_array_equal(read(managed_of(capsule).tensor), array)
    np.testing.assert_array_equal(np.from_dlpack(tensor), array)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(strided_arrays())
def test_copies_have_the_same_elements(array):
    tensor = asarray(array)
    for copied in (asarray(tensor, copy=True), asarray(tensor, "cuda")):
        assert copied.shape == array.shape
        assert not copied.readonly
        assert copied.is_contiguous
        np.testing.assert_array_equal(copied.numpy(), array)


def test_device_pairs(device):
    assert zeros(3).__dlpack_device__() == (1, 0)
    assert zeros(3, device=device).__dlpack_device__() == (2, 0)


def test_read_only_tensors_need_the_new_structure():
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.raises(BufferError, match=r"max_version: expected at least \(1, 0\)"):
        asarray(array).__dlpack__()
    assert not np.from_dlpack(asarray(array)).flags.writeable


@pytest.mark.parametrize("stream", [1, 2, -1, 0, 12345])
def test_no_stream_on_the_host(stream):
    with pytest.raises(ValueError, match="stream: expected None"):
        zeros(3).__dlpack__(stream=stream)


@pytest.mark.parametrize("stream", [0, -2])
def test_forbidden_streams(device, stream):
    with pytest.raises(ValueError, match=f"stream: expected -1, 1, 2, a handle or None .*got {stream}"):
        zeros(3, device=device).__dlpack__(stream=stream)


def test_streams_are_ints(device):
    with pytest.raises(TypeError):
        zeros(3, device=device).__dlpack__(stream="1")


@pytest.mark.parametrize("copy", [True, False, None])
def test_copy_on_the_host(copy):
    tensor = asarray(np.arange(6.0).reshape(2, 3)[:, ::2])
    struct = managed_of(capsule := tensor.__dlpack__(max_version=V1, copy=copy))
    assert bool(struct.flags & COPIED) is bool(copy)
    assert (struct.tensor.data == tensor.ptr) is not bool(copy)
    assert read(struct.tensor).tolist() == [[0.0, 2.0], [3.0, 5.0]]
    del capsule


def test_copies_of_reversed_views_can_leave():
    capsule = asarray(np.arange(3.0)[::-1]).__dlpack__(max_version=V1, copy=True)
    assert read(managed_of(capsule).tensor).tolist() == [2.0, 1.0, 0.0]


def test_copies_of_read_only_tensors_may_be_written():
    array = np.zeros(3)
    array.flags.writeable = False
    assert managed_of(asarray(array).__dlpack__(max_version=V1, copy=True)).flags == COPIED


def test_copy_on_the_device(device):
    tensor = asarray(np.arange(6.0), device)
    capsule = tensor.__dlpack__(max_version=V1, copy=True)
    struct = managed_of(capsule)
    assert struct.flags == COPIED
    assert struct.tensor.device.type == 2
    assert struct.tensor.data != tensor.ptr


def test_to_the_host_on_request(device):
    tensor = asarray(np.arange(6.0), device)
    capsule = tensor.__dlpack__(max_version=V1, dl_device=(1, 0))
    struct = managed_of(capsule)
    assert (struct.tensor.device.type, struct.flags) == (1, COPIED)
    assert read(struct.tensor).tolist() == list(range(6))
    assert np.from_dlpack(tensor, device="cpu").tolist() == list(range(6))


def test_to_the_host_refusals(device):
    tensor = zeros(3, device=device)
    with pytest.raises(ValueError, match="copy: expected None or True"):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(ValueError, match="stream: expected None"):
        tensor.__dlpack__(dl_device=(1, 0), stream=1)


@pytest.mark.parametrize("target", [(2, 1), (2, 0), (13, 0)])
def test_other_devices_on_request_are_refused(target):
    with pytest.raises(BufferError, match=r"dl_device: expected \(1, 0\)"):
        zeros(3).__dlpack__(dl_device=target)


def consume(capsule):
    """Take a capsule over as a C consumer does, and return the structure."""
    struct = managed_of(capsule)
    rename_capsule(capsule, {b"dltensor": b"used_dltensor"}.get(capsule_name(capsule), b"used_dltensor_versioned"))
    return struct


@pytest.fixture
def consumer(device):
    stream = ForeignStream()
    yield stream
    stream.destroy()


def waits(fake, stream):
    return [call for call in fake.log("cuStreamWaitEvent") if call.args["stream"] == stream]


def records(fake, stream):
    return [call for call in fake.log("cuEventRecord") if call.args["stream"] == stream]


def test_the_consumer_waits_for_the_last_write(fake, device, consumer):
    tensor = zeros(3, device=device)
    fake.clear_log()
    capsule = tensor.__dlpack__(stream=consumer.handle, max_version=V1)
    assert len(records(fake, device.default_stream.handle)) == 1
    assert len(waits(fake, consumer.handle)) == 1
    del capsule


@pytest.mark.parametrize(("stream", "handle"), [(None, 1), (1, 1), (2, 2)])
def test_default_streams_are_never_zero(fake, device, stream, handle):
    tensor = zeros(3, device=device)
    fake.clear_log()
    capsule = tensor.__dlpack__(stream=stream, max_version=V1)
    assert len(waits(fake, handle)) == 1
    del capsule


def test_no_ordering_on_request(fake, device):
    tensor = zeros(3, device=device)
    fake.clear_log()
    capsule = tensor.__dlpack__(stream=-1, max_version=V1)
    del capsule
    assert fake.names() == []


@pytest.mark.parametrize("version", [None, V1], ids=["legacy", "versioned"])
def test_the_free_waits_for_the_consumer(fake, device, consumer, version):
    tensor = zeros(3, device=device)
    struct = consume(tensor.__dlpack__(stream=consumer.handle, max_version=version))
    alive = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert alive() is not None
    fake.clear_log()
    delete(struct)
    assert alive() is None
    names = [call.name for call in fake.log() if call.name in ("cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync")]
    assert names == ["cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync"]
    assert len(records(fake, consumer.handle)) == 1
    assert len(waits(fake, device.default_stream.handle)) == 1


def test_writers_of_a_shared_tensor_wait_for_the_consumer(device, consumer, delay, real_gpu):
    tensor = zeros(1000, device=device)
    struct = consume(tensor.__dlpack__(stream=consumer.handle, max_version=V1))
    delay(consumer)
    reader = asarray(np.zeros(1000), device)
    reader.copy_from(tensor, stream=consumer)
    delete(struct)
    tensor.copy_from(np.ones(1000))
    assert reader.numpy().sum() == 0.0


def test_a_failing_record_is_told_as_a_warning(fake, device, consumer):
    struct = consume(zeros(3, device=device).__dlpack__(stream=consumer.handle, max_version=V1))
    with fake.failing("cuEventRecord"), pytest.warns(RuntimeWarning, match="could not be recorded"):
        delete(struct)


def test_own_tensors_come_back_as_they_are():
    tensor = zeros(3)
    assert from_dlpack(tensor) is tensor


def test_leaving_with_capsules_is_silent(run_python):
    code = """
import numpy as np
from madspace.core.creation import asarray, zeros
kept = [zeros(3).__dlpack__(), zeros(3, device="cuda").__dlpack__(stream=1), np.from_dlpack(zeros(3))]
tensors = [asarray(np.zeros(3)), zeros(3, device="cuda"), zeros(3, device="cuda").numpy()]
cycle = [zeros(3, device="cuda").__dlpack__()]
cycle.append(cycle)
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr, done.faults) == (0, "", "", [])


LATE = """
// Calls a deleter when the interpreter is already gone.
static void (*deleter)(void*);
static void* managed;
extern "C" void keep(void (*d)(void*), void* m) { deleter = d; managed = m; }
extern "C" void call() { deleter(managed); }
"""


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_a_deleter_after_the_interpreter_is_gone(run_python, tmp_path, where):
    (tmp_path / "late.cpp").write_text(LATE)
    library = tmp_path / "late.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "late.cpp")], check=True)
    code = f"""
import ctypes
from dlpack_structs import managed_of, rename_capsule
from madspace.core.creation import zeros
capsule = zeros(3, device="{where}").__dlpack__()
struct = managed_of(capsule)
rename_capsule(capsule, b"used_dltensor")
late = ctypes.CDLL("{library}")
late.keep.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
late.keep(struct.deleter, ctypes.addressof(struct))
assert ctypes.pythonapi.Py_AtExit(ctypes.cast(late.call, ctypes.c_void_p)) == 0
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr, done.faults) == (0, "", "", [])
