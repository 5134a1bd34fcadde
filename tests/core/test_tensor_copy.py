"""Tensor.copy and Tensor.astype: memory of their own, row-major, on the same device."""

import gc

import numpy as np
import pytest
from dlpack_structs import table_of, view_of
from raw_driver import capturing, current_context

from madspace.core.creation import asarray, zeros
from madspace.core.stream import Stream
from madspace.core.tensor import Tensor
from madspace.errors import CaptureError, DeviceMismatchError, DriverError, DTypeError, ShapeError

BASE = np.arange(4 * 5 * 6, dtype="f8").reshape(4, 5, 6)
INDICES = {
    "all": np.s_[:],
    "rows": np.s_[::2],
    "columns": np.s_[..., 1:3],
    "every other": np.s_[..., ::2],
    "middle": np.s_[:, ::2],
    "inner corner": np.s_[1:, 1:, 1:],
    "scattered": np.s_[::3, ::2, ::4],
    "one column": np.s_[:, 2, 3],
    "one element": np.s_[1, 2, 3],
    "kept ones": np.s_[1:2, :, 3:4],
    "none": np.s_[:0],
}


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16"])
@pytest.mark.parametrize("index", INDICES)
def test_copies_are_row_major_and_their_own(device, where, dtype, index):
    array = BASE.astype(dtype)
    tensor = asarray(array, where, copy=True)
    view = tensor[INDICES[index]]
    copy = view.copy()
    assert copy.is_contiguous
    assert (copy.shape, copy.dtype, copy.device, copy.stream) == (view.shape, view.dtype, view.device, view.stream)
    if tensor.size:
        tensor.fill(77)
    np.testing.assert_array_equal(copy.numpy(), array[INDICES[index]])


# Layouts that slices do not make: (shape, strides) over 120 elements.
STRANGE = [
    ((6, 5, 4), (1, 6, 30)),
    ((30, 4), (1, 30)),
    ((4, 6, 5), (30, 1, 6)),
    ((10, 3), (1, 1)),
    ((3, 4), (1, 2)),
    ((5, 1, 7), (3, 120, 2)),
]


@pytest.mark.parametrize(("shape", "strides"), STRANGE)
def test_transposed_and_overlapping_layouts(device, shape, strides):
    tensor = asarray(BASE.reshape(-1), device)
    view = view_of(table_of(Tensor), tensor, shape=shape, strides=strides)
    expected = np.lib.stride_tricks.as_strided(BASE, shape, [8 * stride for stride in strides])
    np.testing.assert_array_equal(view.copy().numpy(), expected)


def test_the_longest_loop_is_one_call(fake, device):
    tensor = asarray(np.zeros((3, 1000)), device)
    view = view_of(table_of(Tensor), tensor, shape=(1000, 3), strides=(1, 1000))
    fake.clear_log()
    view.copy()
    calls = fake.log("cuMemcpy2DAsync")
    assert [(call.args["width"], call.args["height"]) for call in calls] == [(8, 1000)] * 3


def test_rows_too_far_apart_for_one_call(fake, device):
    # Such a tensor is larger than what tests should use: the first copy fails before anything reads past the end.
    view = view_of(table_of(Tensor), zeros(4, "u1", device=device), shape=(2, 2), strides=(2**31, 1))
    with fake.failing("cuMemcpyDtoDAsync"), pytest.raises(DriverError, match="cuMemcpyDtoDAsync"):
        view.copy()


@pytest.mark.parametrize("index", [np.s_[::-1], np.s_[:, ::-2]])
def test_backwards_on_a_device_goes_by_the_host(device, index):
    view = asarray(BASE, device)[index]
    with pytest.raises(ShapeError, match="self: expected strides of 1 and more on a device"):
        view.copy()
    np.testing.assert_array_equal(asarray(view.numpy(), device).numpy(), BASE[index])


def test_a_copy_of_a_read_only_tensor_may_be_written():
    array = np.zeros(3)
    array.flags.writeable = False
    copy = asarray(array).copy()
    assert not copy.readonly
    copy.fill(1)


def test_a_copy_lets_go_of_the_memory_that_it_came_from(fake, device):
    slab = asarray(BASE, device)
    before = fake.counts()["device_memory"]
    part = slab[0, 0].copy()
    del slab
    gc.collect()
    assert fake.counts()["device_memory"] == before
    assert part.numpy().tolist() == BASE[0, 0].tolist()


def test_a_copy_on_another_stream(device, stream, delay):
    source = asarray(BASE, device)
    late = Stream(device)
    delay(late)
    source.fill(0.5, stream=late)
    copy = source.copy(stream=stream)
    assert copy.stream == stream
    np.testing.assert_array_equal(copy.numpy(), np.full_like(BASE, 0.5))


def test_a_copy_in_a_capture_is_refused_and_the_capture_goes_on(device, stream):
    tensor = zeros(3, device=device, stream=stream)
    with capturing(stream), pytest.raises(CaptureError):
        tensor.copy()


@pytest.mark.multi_gpu
def test_a_stream_of_another_device(device, other_device):
    with pytest.raises(DeviceMismatchError):
        zeros(3, device=device).copy(stream=Stream(other_device))


@pytest.mark.parametrize("index", ["all", "scattered"])
def test_each_failure_leaves_nothing(fake, device, stream, index):
    tensor, kept = asarray(BASE, device)[INDICES[index]], []

    def action():
        kept.append(tensor.copy(stream=stream))

    def blocks():
        gc.collect()
        return fake.counts()["device_memory"]

    action()
    kept.clear()
    before, context = blocks(), current_context()
    for name, error in fake.each_failure(action):
        assert isinstance(error, DriverError), f"the failure of {name} was lost"
        del error
        kept.clear()
        if name == "cuCtxPopCurrent":  # the block was handed out by then
            before = blocks()
        assert blocks() == before, name
        assert current_context() == context


@pytest.mark.parametrize(
    ("old", "new"), [("f8", "f4"), ("f8", "i4"), ("i4", "c16"), ("i8", "?"), ("u1", "i8"), ("c8", "c16")]
)
def test_conversions_are_numpys(old, new):
    array = (np.arange(12) % 5).reshape(3, 4).astype(old)[:, ::2]
    tensor = asarray(array).astype(new)
    assert tensor.is_contiguous
    np.testing.assert_array_equal(tensor.numpy(), array.astype(new), strict=True)


def test_the_same_type_is_a_copy():
    array = np.arange(3.0)
    tensor = asarray(array).astype("f8")
    array[:] = 0
    assert tensor.numpy().tolist() == [0, 1, 2]


@pytest.mark.needs("ml_dtypes")
def test_to_a_small_float_and_back():
    import ml_dtypes

    there = asarray(np.array([0.5, 1.5, -2.0])).astype(ml_dtypes.bfloat16)
    assert there.itemsize == 2
    assert there.astype("f8").numpy().tolist() == [0.5, 1.5, -2.0]


def test_a_device_converts_nothing(device):
    tensor = asarray(np.arange(3.0), device)
    with pytest.raises(DTypeError, match=r"expected float64, the type of the tensor .*, got float32: convert"):
        tensor.astype("f4")
    assert tensor.astype("f8").numpy().tolist() == [0, 1, 2]
    assert tensor.astype("f8").ptr != tensor.ptr


def test_unknown_types_are_refused():
    with pytest.raises(DTypeError, match="dtype: expected a"):
        zeros(3).astype("datetime64[s]")


def test_comparison_goes_through_numpy(device):
    tensor = asarray(np.arange(3.0), device)
    assert (tensor.numpy() == np.arange(3.0)).all()
    assert tensor != zeros(3, device=device)  # objects are compared by identity: nothing is read behind the back
