"""What capsules may hold, and what of it is refused: every case is built field by field."""

import gc
import threading
import weakref

import numpy as np
import pytest
from dlpack_structs import DLDataType, Producer, capsule_name, delete, managed_of, rename_capsule

from madspace.core.creation import empty, from_dlpack, zeros
from madspace.errors import DTypeError, ShapeError

READ_ONLY = 1


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])
def test_memory_is_shared_and_goes_back_once(versioned):
    producer = Producer(np.arange(6.0).reshape(2, 3), versioned=versioned)
    tensor = from_dlpack(producer)
    assert tensor.shape == (2, 3)
    assert tensor.ptr == producer.tensor.data
    assert tensor.numpy().tolist() == producer.array.tolist()
    assert producer.deleted == 0
    view = tensor.numpy()
    del tensor
    gc.collect()
    assert producer.deleted == 0
    del view
    gc.collect()
    assert producer.deleted == 1


def test_the_capsule_is_marked_as_used():
    capsules = []
    producer = Producer(np.zeros(3))
    make = producer.capsule
    producer.capsule = lambda: capsules.append(make()) or capsules[-1]
    tensor = from_dlpack(producer)
    assert capsule_name(capsules[0]) == b"used_dltensor_versioned"
    producer.capsule = lambda: capsules[0]
    with pytest.raises(BufferError, match="consumed already"):
        from_dlpack(producer)
    del tensor
    assert producer.deleted == 1


def test_null_strides_are_row_major():
    producer = Producer(np.zeros((2, 3, 4)))
    assert from_dlpack(producer).strides == (12, 4, 1)


def test_byte_offset_counts():
    array = np.arange(6.0)
    producer = Producer(array, shape=(2,))
    producer.tensor.byte_offset = 16
    tensor = from_dlpack(producer)
    assert tensor.ptr == array.__array_interface__["data"][0] + 16
    assert tensor.numpy().tolist() == [2.0, 3.0]


def test_no_dimensions_and_null_pointers():
    producer = Producer(np.array(7.0))
    producer.tensor.shape = None
    tensor = from_dlpack(producer)
    assert tensor.shape == ()
    assert tensor.strides == ()
    assert tensor.numpy() == 7.0


def test_no_elements_and_an_address():
    producer = Producer(np.zeros((2, 0)), strides=(0, 0))
    tensor = from_dlpack(producer)
    assert tensor.shape == (2, 0)
    assert tensor.ptr == 0
    assert tensor.is_contiguous


def test_broadcast_and_negative_strides_come_in():
    producer = Producer(np.arange(3.0), shape=(4, 3), strides=(0, 1))
    tensor = from_dlpack(producer)
    assert tensor.strides == (0, 1)
    assert tensor.numpy()[3].tolist() == [0.0, 1.0, 2.0]
    array = np.arange(3.0)
    producer = Producer(array, strides=(-1,))
    producer.tensor.data += 16
    assert from_dlpack(producer).numpy().tolist() == [2.0, 1.0, 0.0]


def test_read_only_is_kept():
    producer = Producer(np.zeros(3), flags=READ_ONLY)
    tensor = from_dlpack(producer)
    assert tensor.readonly
    assert not tensor.numpy().flags.writeable
    assert managed_of(tensor.__dlpack__(max_version=(1, 0))).flags & READ_ONLY


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("code", [0, 1], ids=["int", "uint"])
def test_integers_of_every_width(code, bits):
    array = np.arange(4).astype(f"{'iu'[code]}{bits // 8}")
    producer = Producer(array)
    tensor = from_dlpack(producer)
    assert tensor.dtype == array.dtype
    assert tensor.numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.needs("ml_dtypes")
@pytest.mark.parametrize(
    ("code", "name"),
    [
        (4, "bfloat16"),
        (7, "float8_e3m4"),
        (8, "float8_e4m3"),
        (9, "float8_e4m3b11fnuz"),
        (10, "float8_e4m3fn"),
        (11, "float8_e4m3fnuz"),
        (12, "float8_e5m2"),
        (13, "float8_e5m2fnuz"),
        (14, "float8_e8m0fnu"),
    ],
)
def test_small_floats_keep_their_bits(code, name):
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, name))
    raw = np.arange(1, 5).astype(f"u{dtype.itemsize}")
    producer = Producer(raw)
    producer.tensor.dtype = DLDataType(code, 8 * dtype.itemsize, 1)
    tensor = from_dlpack(producer)
    assert tensor.dtype == dtype
    assert tensor.numpy().dtype == dtype
    assert tensor.numpy().view(raw.dtype).tolist() == [1, 2, 3, 4]
    out = managed_of(tensor.__dlpack__(max_version=(1, 1))).tensor.dtype
    assert (out.code, out.bits, out.lanes) == (code, 8 * dtype.itemsize, 1)


@pytest.mark.parametrize(
    "dtype",
    [(2, 64, 2), (0, 4, 1), (2, 128, 1), (4, 32, 1), (3, 64, 1), (6, 16, 1), (17, 4, 1), (15, 6, 1), (2, 0, 1)],
    ids=["lanes", "int4", "float128", "bfloat32", "opaque", "bool16", "float4", "float6", "no-bits"],
)
def test_unknown_types_are_refused_and_given_back(dtype):
    producer = Producer(np.zeros(4))
    producer.tensor.dtype = DLDataType(*dtype)
    with pytest.raises(DTypeError, match=r"^x: expected"):
        from_dlpack(producer)
    gc.collect()
    assert producer.deleted == 1


def test_a_newer_major_version_is_only_given_back():
    producer = Producer(np.zeros(4), version=(2, 0))
    producer.tensor.ndim = -17  # must not be looked at
    with pytest.raises(BufferError, match=r"DLPack version: expected 1\.x, got 2\.0"):
        from_dlpack(producer)
    gc.collect()
    assert producer.deleted == 1


def test_a_newer_minor_version_is_fine():
    producer = Producer(np.zeros(4), version=(1, 99))
    assert from_dlpack(producer).shape == (4,)


def test_a_deleter_may_be_missing():
    producer = Producer(np.arange(4.0), with_deleter=False)
    tensor = from_dlpack(producer)
    assert tensor.numpy().sum() == 6.0
    del tensor
    assert producer.deleted == 0


@pytest.mark.parametrize(
    ("shape", "error"),
    [((1,) * 9, ShapeError), ((2, -1), ShapeError), ((2**32, 2**32), ShapeError), ((0, 2**62, 4), ShapeError)],
    ids=["too-many-dimensions", "negative", "overflow", "overflow-behind-zero"],
)
def test_impossible_shapes(shape, error):
    producer = Producer(np.zeros(1), shape=shape)
    with pytest.raises(error):
        from_dlpack(producer)
    gc.collect()
    assert producer.deleted == 1


def test_elements_need_an_address_and_dimensions_a_shape():
    producer = Producer(np.zeros(4))
    producer.tensor.data = None
    with pytest.raises(BufferError, match="x: expected an address"):
        from_dlpack(producer)
    producer = Producer(np.zeros(4))
    producer.tensor.shape = None
    with pytest.raises(BufferError, match="x: expected a shape of 1 lengths, got NULL"):
        from_dlpack(producer)


@pytest.mark.parametrize("device_type", [4, 10, 14], ids=["opencl", "rocm", "oneapi"])
def test_other_devices_are_refused(device_type):
    producer = Producer(np.zeros(4))
    producer.device = (device_type, 0)
    producer.tensor.device.type = device_type
    with pytest.raises(BufferError, match=f"got DLPack device type {device_type}"):
        from_dlpack(producer)
    gc.collect()
    assert producer.deleted == 1


def test_page_locked_memory_counts_as_host_memory():
    producer = Producer(np.arange(4.0))
    producer.device = (3, 0)
    producer.tensor.device.type = 3
    tensor = from_dlpack(producer)
    assert tensor.device == "cpu"
    assert tensor.numpy().sum() == 6.0


@pytest.mark.parametrize("answer", [None, 3, object()], ids=["none", "int", "object"])
def test_what_is_no_capsule(answer):
    producer = Producer(np.zeros(4))
    producer.capsule = lambda: answer
    with pytest.raises(TypeError, match="expected a capsule named dltensor"):
        from_dlpack(producer)


def test_a_capsule_of_another_name():
    producer = Producer(np.zeros(4))
    capsule = producer.capsule()
    name = b"something"
    rename_capsule(capsule, name)
    producer.capsule = lambda: capsule
    with pytest.raises(TypeError, match="expected a capsule named dltensor"):
        from_dlpack(producer)
    assert producer.deleted == 0


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_exported_structures(version):
    capsule = empty((2, 3), "f4").__dlpack__(max_version=version)
    struct = managed_of(capsule)
    if version is None or version[0] == 0:
        assert capsule_name(capsule) == b"dltensor"
    else:
        assert capsule_name(capsule) == b"dltensor_versioned"
        assert (struct.major, struct.minor, struct.flags) == (1, 3, 0)
    tensor = struct.tensor
    assert (tensor.device.type, tensor.device.id, tensor.ndim, tensor.byte_offset) == (1, 0, 2, 0)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (2, 32, 1)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])


def test_no_elements_are_exported_without_an_address():
    assert managed_of(zeros((0, 3)).__dlpack__(max_version=(1, 0))).tensor.data is None


@pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])
def test_an_unused_capsule_lets_go_of_the_tensor(version):
    tensor = zeros(8)
    alive = weakref.ref(tensor)
    capsule = tensor.__dlpack__(max_version=version)
    del tensor
    assert alive() is not None
    del capsule
    assert alive() is None


@pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])
def test_a_deleter_works_in_any_thread(version):
    tensor = zeros(8)
    alive = weakref.ref(tensor)
    capsule = tensor.__dlpack__(max_version=version)
    struct = managed_of(capsule)
    # From here on the structure is ours, as a consumer's.
    name = b"used_" + capsule_name(capsule)
    rename_capsule(capsule, name)
    del tensor, capsule
    assert alive() is not None
    worker = threading.Thread(target=delete, args=(struct,))
    worker.start()
    worker.join()
    assert alive() is None
