"""Arrays of other packages in calls of ops: read where they are, ordered once for all, or taken over."""

import contextlib
import ctypes
import gc
import sys
import types

import numpy as np
import pytest
from dlpack_structs import DELETER
from frameworks import framework
from raw_driver import ForeignStream

import madspace
from madspace import Stream, TPropagatorMapping

pytestmark = pytest.mark.fake


@pytest.fixture
def mapping(device, fused_kernels):
    return TPropagatorMapping([0, 1], 0.8)


def inputs(stream, n=10):
    rng = np.random.default_rng(1)
    host = [*rng.random((5, n)), np.full(n, 500.0), np.full(n, 80.0), np.full(n, 5.0), np.zeros(n)]
    return host, [madspace.asarray(x, device="cuda", stream=stream) for x in host]


def same(results, host, mapping):
    for x, y in zip(results, mapping.map_forward(host), strict=True):
        np.testing.assert_array_equal(np.asarray(madspace.from_dlpack(x).numpy()), y)


def calls_of(fake, call):
    """Return what a call does in the driver, contexts and questions apart."""
    fake.clear_log()
    call()
    return [x for x in fake.names() if "Ctx" not in x and "IsCapturing" not in x and "CaptureInfo" not in x]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_one_order_before_and_one_behind(device, fake, mapping, elsewhere):
    theirs, ours = Stream(device), Stream(device)
    array, _ = framework(current={"stream": theirs.handle})
    host, tensors = inputs(theirs)
    arrays = [array(x) for x in tensors]
    call_stream = ours if elsewhere else theirs
    out = list(mapping.map_forward(tensors, stream=call_stream))
    mapping.map_forward(arrays, out=out, stream=call_stream)
    array.current["exports"] = 0
    done = calls_of(fake, lambda: mapping.map_forward(arrays, out=out, stream=call_stream))
    order = ["cuEventRecord", "cuStreamWaitEvent"] if elsewhere else []
    assert done == [*order, "cuLaunchKernel", *order]
    assert array.current["exports"] == 0
    same(out, host, mapping)


def test_the_current_stream_is_the_works(device, fake, mapping):
    theirs = Stream(device)
    array, _ = framework(current={"stream": theirs.handle})
    _, tensors = inputs(theirs)
    arrays = [array(x) for x in tensors]
    out = list(mapping.map_forward(tensors, stream=theirs))
    assert calls_of(fake, lambda: mapping.map_forward(arrays, out=out)) == ["cuLaunchKernel"]


def test_outputs_of_a_table_are_taken_over(device, mapping):
    """What a table lends may be read-only, which only taking over tells."""
    stream = Stream(device)
    array, _ = framework(current={"stream": stream.handle})
    host, tensors = inputs(stream)
    out = list(mapping.map_forward(tensors, stream=stream))
    given = [array(x) for x in out]
    array.current["exports"] = 0
    results = mapping.map_forward([array(x) for x in tensors], out=given, stream=stream)
    assert array.current["exports"] == len(given)
    assert all(x is y for x, y in zip(results, given, strict=True))
    same(out, host, mapping)


def test_frameworks_on_two_streams(device, fake, mapping):
    """One is read where it is, the others are ordered by themselves."""
    streams = [Stream(device) for _ in range(3)]
    kinds = [framework(current={"stream": x.handle})[0] for x in streams[:2]]
    host, tensors = inputs(streams[2])
    device.synchronize()
    arrays = [kinds[i % 2](x) for i, x in enumerate(tensors)]
    same(mapping.map_forward(arrays, stream=streams[2]), host, mapping)
    assert kinds[0].current.get("exports", 0) == 0
    assert kinds[1].current["exports"] == 4


def test_a_capture_keeps_what_it_reads(device, mapping):
    stream = Stream(device)
    array, _ = framework(current={"stream": stream.handle})
    host, tensors = inputs(stream)
    out = list(mapping.map_forward(tensors, stream=stream))
    arrays = [array(x) for x in tensors]
    mapping.map_forward(arrays, out=out, stream=stream)
    array.current["exports"] = 0
    with madspace.capture(stream) as graph:
        mapping.map_forward(arrays, out=out, stream=stream)
    assert array.current["exports"] == len(arrays)
    del arrays, tensors
    for x in out:
        x.fill(0.0, stream=stream)
    graph.instantiate().launch(stream)
    same(out, host, mapping)


# ---- CuPy ----


class CupyArray:
    """What CuPy's arrays tell, over a Tensor."""

    def __init__(self, tensor, dtype=None):
        self.tensor, self.dtype = tensor, np.dtype(dtype or tensor.dtype)
        self.shape, self.strides = tensor.shape, tuple(8 * x for x in tensor.strides)
        self.data = types.SimpleNamespace(ptr=tensor.ptr, device_id=tensor.device.id)

    def __dlpack_device__(self):
        return (2, self.data.device_id)

    def __dlpack__(self, *, stream=None, max_version=None, **_):
        assert type(self).may_export, "taken over"
        return self.tensor.__dlpack__(stream=stream, max_version=max_version)

    may_export = False


@pytest.fixture
def cupy(monkeypatch, device):
    """Return a module that stands for CuPy; its arrays are on the stream ``cupy.stream``."""
    module = types.ModuleType("cupy")
    module.stream = Stream(device)
    told = []

    def get_current_stream(number=-1):
        told.append(number)
        return types.SimpleNamespace(ptr=module.stream.handle, owner=module.stream)

    module.cuda = types.SimpleNamespace(get_current_stream=get_current_stream)
    module.ndarray = type("ndarray", (CupyArray,), {"__module__": "cupy"})
    module.from_dlpack = lambda x: module.ndarray(madspace.from_dlpack(x))
    module.told = told
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_cupy(device, fake, mapping, cupy):
    host, tensors = inputs(cupy.stream)
    out = list(mapping.map_forward(tensors, stream=cupy.stream))
    arrays, given = [cupy.ndarray(x) for x in tensors], [cupy.ndarray(x) for x in out]
    results = mapping.map_forward(arrays, out=given)
    assert all(x is y for x, y in zip(results, given, strict=True))
    same(out, host, mapping)
    cupy.told.clear()
    assert calls_of(fake, lambda: mapping.map_forward(arrays, out=given)) == ["cuLaunchKernel"]
    assert cupy.told == [device.id]
    order = ["cuEventRecord", "cuStreamWaitEvent"]
    other = Stream(device)
    assert calls_of(fake, lambda: mapping.map_forward(arrays, out=given, stream=other)) == [
        *order, "cuLaunchKernel", *order,
    ]  # fmt: skip


class CupyStream:
    """A stream of CuPy, which ends with its object; `from_external` ones do not."""

    def __init__(self):
        self.stream = ForeignStream()
        self.ptr = self.stream.handle

    def __del__(self):
        self.stream.destroy()


@pytest.mark.parametrize("is_external", [False, True])
def test_a_stream_of_cupy_ends_before_the_results(device, fake, mapping, cupy, is_external):
    stream = CupyStream()
    current = [types.SimpleNamespace(ptr=stream.ptr) if is_external else stream]
    cupy.cuda.get_current_stream = lambda _: current[0]
    host, tensors = inputs(Stream(device))
    device.synchronize()
    arrays = [cupy.ndarray(x) for x in tensors]
    results = mapping.map_forward(arrays)
    same([x.tensor for x in results], host, mapping)
    ended = stream.ptr
    current.clear()
    del stream, arrays, tensors
    gc.collect()
    fake.clear_log()
    del results
    gc.collect()
    used = [call.name for call in fake.log() if call.args.get("stream") == ended]
    assert [x for x in used if "IsCapturing" not in x] == ([] if is_external else ["cuMemFreeAsync", "cuStreamDestroy"])


@pytest.mark.parametrize("package", ["table", "cupy"])
def test_a_stream_of_ours_ends_behind_the_results(device, fake, mapping, cupy, package):
    """Another package works on it and tells its handle: what it is given lives no longer than the handle."""
    stream = Stream(device)
    handle = stream.handle
    array = framework(current={"stream": handle})[0] if package == "table" else cupy.ndarray
    cupy.cuda.get_current_stream = lambda _: types.SimpleNamespace(ptr=handle)
    host, tensors = inputs(stream)
    arrays = [array(x) for x in tensors]
    results = mapping.map_forward(arrays)
    same([getattr(x, "tensor", x) for x in results], host, mapping)
    del tensors, arrays
    gc.collect()
    stream.close()
    fake.clear_log()
    del stream
    assert "cuStreamDestroy" not in fake.names()
    del results
    gc.collect()
    used = [call.name for call in fake.log() if call.args.get("stream") == handle]
    assert [x for x in used if "IsCapturing" not in x] == ["cuMemFreeAsync", "cuStreamDestroy"]


def test_cupy_beside_a_framework_on_another_stream(device, fake, mapping, cupy):
    """Nothing but CuPy's current stream tells where its arrays are used before and behind the call."""
    theirs, ours = Stream(device), Stream(device)
    array, _ = framework(current={"stream": theirs.handle})
    host, tensors = inputs(theirs)
    out = list(mapping.map_forward(tensors, stream=theirs))
    device.synchronize()
    late = [cupy.ndarray(x) for x in tensors]
    given = [cupy.ndarray(x) for x in out]
    arrays = [array(x) if i % 2 == 0 else late[i] for i, x in enumerate(tensors)]
    for stream in (theirs, ours, cupy.stream):
        fake.defer(stream.handle)
    for i in range(1, 5, 2):  # CuPy writes its arrays only now
        tensors[i].copy_from(host[i][::-1].copy(), stream=cupy.stream)
    mapping.map_forward(arrays, out=given, stream=ours)
    fake.run(ours.handle)
    fake.run(cupy.stream.handle)
    values = [x if i % 2 == 0 else x[::-1] for i, x in enumerate(host)]
    for stream in (theirs, ours, cupy.stream):
        fake.defer(stream.handle, False)
    same(out, values, mapping)
    done = calls_of(fake, lambda: mapping.map_forward(arrays, out=given, stream=ours))
    order = ["cuEventRecord", "cuStreamWaitEvent"]
    assert done == [*order * 2, "cuLaunchKernel", *order * 2]


def test_views_of_cupy(mapping, cupy):
    host, tensors = inputs(cupy.stream)
    backwards = [cupy.ndarray(x[::-1]) for x in tensors]
    found = mapping.map_forward(backwards)
    same([x.tensor for x in found], [x[::-1] for x in host], mapping)
    one = [cupy.ndarray(x[:1]) if i > 4 else cupy.ndarray(x) for i, x in enumerate(tensors)]
    same([x.tensor for x in mapping.map_forward(one)], host, mapping)
    nothing = mapping.map_forward([cupy.ndarray(x[:0]) for x in tensors])
    assert [x.shape for x in nothing] == [(0, 4)] * 5 + [(0,)]


def test_what_cupy_must_not_give(mapping, cupy):
    _, tensors = inputs(cupy.stream)
    arrays = [cupy.ndarray(x) for x in tensors]
    with pytest.raises(madspace.DTypeError, match="random2: expected dtype float64, got int64"):
        mapping.map_forward([*arrays[:2], cupy.ndarray(tensors[2], np.int64), *arrays[3:]])
    long = cupy.ndarray(tensors[3])
    long.dtype, type(long).may_export = np.dtype(np.longdouble), True
    mapping.map_forward([*arrays[:3], long, *arrays[4:]])  # of a type that DLPack may know: it is taken over
    type(long).may_export = False
    arrays[1].shape, arrays[1].strides = (5, 2), (16, 8)
    with pytest.raises(madspace.ShapeError, match=r"random1: expected shape \(batch,\), got \(5, 2\)"):
        mapping.map_forward(arrays)


def test_what_else_is_of_cupy_is_no_array(mapping, cupy):
    _, tensors = inputs(cupy.stream)
    other = type("poly1d", (), {"__module__": "cupy"})()
    with pytest.raises(TypeError, match="random0: expected an array"):
        mapping.map_forward([other, *tensors[1:]])


# ---- calls that are known ----


def test_known_calls_are_the_same_calls(device, fake, mapping):
    stream = Stream(device)
    host, tensors = inputs(stream)
    other_host = [*(x[::-1].copy() for x in host[:5]), *host[5:]]
    others = [madspace.asarray(x, device="cuda", stream=stream) for x in other_host]
    out = list(mapping.map_forward(tensors, stream=stream))
    for given, wanted in ((tensors, host), (others, other_host), (tensors, host), (others, other_host)):
        mapping.map_forward(given, out=out, stream=stream)
        same(out, wanted, mapping)
    exchanged = [out[1], out[0], *out[2:]]
    mapping.map_forward(tensors, out=exchanged, stream=stream)
    same(exchanged, host, mapping)
    with pytest.raises(ValueError, match="shared with"):
        mapping.map_forward(tensors, out=[out[0], out[0], *out[2:]], stream=stream)


def test_a_known_call_still_comes_behind_others(device, fake, mapping):
    first, second = Stream(device), Stream(device)
    host, tensors = inputs(first)
    out = list(mapping.map_forward(tensors, stream=first))
    mapping.map_forward(tensors, out=out, stream=first)
    done = calls_of(fake, lambda: mapping.map_forward(tensors, out=out, stream=second))
    assert "cuStreamWaitEvent" in done[: done.index("cuLaunchKernel")]
    done = calls_of(fake, lambda: mapping.map_forward(tensors, out=out, stream=first))
    assert "cuStreamWaitEvent" in done[: done.index("cuLaunchKernel")]
    same(out, host, mapping)


def outcome(mapping, arrays, given, memory):
    """Return the bytes of the results, or what is wrong with the call."""
    for x in memory:
        x.fill(0.0)
    try:
        mapping.map_forward(arrays, out=given)
    except (ValueError, TypeError, madspace.MadspaceError) as error:
        return type(error), str(error)
    return [x.numpy().tobytes() for x in memory]


class SameMemory:
    """The memory of a Tensor, told by the CUDA array interface."""

    def __init__(self, tensor, **told):
        self.tensor, self.__cuda_array_interface__ = tensor, {**tensor.__cuda_array_interface__, **told}


@pytest.mark.parametrize("kind", ["own", "cupy"])
def test_a_known_call_sees_what_has_changed(device, mapping, cupy, kind):
    """Other arrays at the same addresses: the answer is that of a mapping that never saw them."""

    def wrapped(x, **told):
        view = madspace.asarray(SameMemory(x, **told)) if told else x
        return cupy.ndarray(view) if kind == "cupy" else view

    n = 6
    rng = np.random.default_rng(1)
    with madspace.stream(cupy.stream):
        wide = [madspace.asarray(x, device="cuda") for x in rng.random((9, 2 * n))]
        for x in wide[5:]:
            x.copy_from(np.linspace(900.0, 901.0, 2 * n) if x is wide[5] else np.linspace(1.0, 2.0, 2 * n))
        wide_out = [madspace.zeros((2 * n, *(k or ())), "f8", device="cuda") for k in [(4,)] * 5 + [None]]
        inputs = [x[:n] for x in wide]
        results = [x[:n] for x in wide_out]
        narrow = {"typestr": "<f4", "strides": None}
        swapped = [results[1], results[0], *results[2:]]
        read_only = {"data": (results[3].ptr, True)}
        changes = [
            *([(k, wide[k][::2], None) for k in (0, 3, 8)] + [(k, wide[k][:1], None) for k in (0, 4, 8)]),
            *((k, wide[k][: n - 1], None) for k in (0, 8)),
            *((k, inputs[k], {"typestr": "<i8"}) for k in (0, 7)),
            *((k, inputs[k], {**narrow, "shape": (n,)}) for k in (0, 7)),
            *((k, wide[k].reshape((n, 2)), None) for k in (0, 5)),
            (9, wide_out[0][::2], None),
            (11, wide_out[2][: n - 1], None),
            (12, results[3].reshape((4, n)), None),
            (12, results[3].reshape((2, n, 2)), None),
            (12, results[3], {"typestr": "<i8"}),
            (13, results[4], {"shape": (n, 4), "strides": (4 * n, 4), "typestr": "<f4"}),
            (14, wide_out[5][::2], None),
            (14, wide_out[5], None),
            (9, inputs[0], None),
            *([(12, results[3], read_only)] if kind == "own" else []),
        ]
        arrays = [wrapped(x) for x in inputs]
        given = [wrapped(x) for x in results]
        expected = outcome(TPropagatorMapping([0, 1], 0.8), arrays, given, wide_out)
        assert isinstance(expected, list)
        n_refused = 0
        for place, view, told in [
            *changes,
            (None, swapped, None),
            (None, [results[0], results[0], *results[2:]], None),
        ]:
            assert outcome(mapping, arrays, given, wide_out) == expected
            assert outcome(mapping, arrays, given, wide_out) == expected
            changed, before = [*arrays, *given], {}
            if place is None:
                changed[9:] = [wrapped(x) for x in view]
            elif kind == "own":
                changed[place] = wrapped(view, **(told or {}))
            else:  # the same object
                before = dict(vars(changed[place]))
                vars(changed[place]).update(vars(wrapped(view, **(told or {}))))
            wanted = outcome(TPropagatorMapping([0, 1], 0.8), changed[:9], changed[9:], wide_out)
            n_refused += isinstance(wanted, tuple)
            assert outcome(mapping, changed[:9], changed[9:], wide_out) == wanted, (place, told)
            if before:
                vars(changed[place]).update(before)
        assert 12 <= n_refused < len(changes)


@pytest.mark.parametrize("kind", ["own", "cupy"])
def test_a_known_call_tells_one_number_from_as_many_as_events(device, mapping, cupy, kind):
    """At the same addresses: elements without a distance, one for each event, then one for all."""
    wrapped = cupy.ndarray if kind == "cupy" else lambda x: x
    with madspace.stream(cupy.stream):
        _, ones = inputs(cupy.stream, 1)
        many = [wrapped(madspace.asarray(SameMemory(x, shape=(10,), strides=(0,)))) for x in ones]
        given = [wrapped(madspace.zeros((10, *k), "f8", device="cuda")) for k in [(4,)] * 5 + [()]]
        for _ in range(2):
            mapping.map_forward(many, out=given)
        with pytest.raises(madspace.ShapeError, match=r"expected shape \(1, 4\), got \(10, 4\)"):
            mapping.map_forward([wrapped(x) for x in ones], out=given)
        mapping.map_forward([*many[:4], *(wrapped(x) for x in ones[4:])], out=given)


def test_new_results_are_parts_of_one_block(device, fake, mapping):
    """Of a framework's kind: one allocation, one use noted when the last of them has gone."""
    stream, theirs = Stream(device), Stream(device)
    array, _ = framework(current={"stream": theirs.handle})
    host, tensors = inputs(stream)
    results = mapping.map_forward([array(x) for x in tensors], stream=stream)
    same(results, host, mapping)
    assert {type(x) for x in results} == {madspace.Tensor}  # whose table takes them home
    gc.collect()
    fake.clear_log()
    addresses = sorted(x.ptr for x in results)
    assert addresses[-1] - addresses[0] < 6 * 512
    kept = results[2]
    del results
    gc.collect()
    assert "cuMemFreeAsync" not in fake.names()
    np.testing.assert_array_equal(kept.numpy(), mapping.map_forward(host)[2])
    del kept
    gc.collect()
    assert fake.names().count("cuMemFreeAsync") == 1


@pytest.mark.parametrize("name", ["cuEventRecord", "cuStreamWaitEvent", "cuStreamIsCapturing"])
def test_readers_that_cannot_be_noted_are_over_before_their_package_goes_on(device, fake, mapping, name):
    theirs, ours = Stream(device), Stream(device)
    array, _ = framework(current={"stream": theirs.handle})
    _, tensors = inputs(theirs)
    arrays = [array(x) for x in tensors]
    out = list(mapping.map_forward(tensors, stream=ours))
    n_launched = 0
    for nth in range(1, 30):
        device.synchronize()
        fake.defer(ours)
        fake.clear_log()
        fake.fail(name, nth)
        try:
            mapping.map_forward(arrays, out=out, stream=ours)
        except madspace.DriverError:
            if "cuLaunchKernel" in fake.names():
                n_launched += 1
                assert ours.query()
        is_last = not fake.failures_fired()
        fake.clear_failures()
        if is_last:
            break
    assert n_launched > 0


def test_a_failed_launch_leaves_the_arrays_as_they_were(device, fake, mapping):
    theirs, ours = Stream(device), Stream(device)
    array, _ = framework(current={"stream": theirs.handle})
    host, tensors = inputs(theirs)
    arrays = [array(x) for x in tensors]
    out = list(mapping.map_forward(tensors, stream=ours))
    fake.fail("cuLaunchKernel")
    with contextlib.suppress(madspace.MadspaceError):
        mapping.map_forward(arrays, out=out, stream=ours)
    mapping.map_forward(arrays, out=out, stream=ours)
    same(out, host, mapping)


def test_what_is_lent_is_not_given_back_under_its_readers(device, fake, mapping):
    """The order behind the launch fails: the lender, who will not wait, must not reuse the memory yet."""
    theirs, ours = Stream(device), Stream(device)
    array, _ = framework(current={"stream": theirs.handle})
    _, tensors = inputs(theirs)
    out = list(mapping.map_forward(tensors, stream=ours))
    arrays = [array(x) for x in tensors]
    fake.clear_log()
    with fake.failing("cuEventRecord", nth=2), pytest.raises(madspace.DriverError):
        mapping.map_forward(arrays, out=out, stream=ours)
    names = fake.names()
    waits = [call.args["stream"] for call in fake.log("cuStreamSynchronize")]
    assert waits == [ours.handle]
    assert names.index("cuLaunchKernel") < names.index("cuStreamSynchronize")


def test_a_known_call_tells_one_number_from_one_for_each_event(device, mapping):
    """The kernel is given the same address and stride 0 for both, but only one of them tells the number of events."""
    stream = Stream(device)
    _, tensors = inputs(stream, 1)
    repeated = madspace.asarray(SameMemory(tensors[1], shape=(6,), strides=(0,)))
    six = [tensors[0], repeated, *tensors[2:]]
    with madspace.stream(stream):
        mapping.map_forward(six)
        assert [len(x) for x in mapping.map_forward(six)] == [6] * 6
        assert [len(x) for x in mapping.map_forward(tensors)] == [1] * 6
        out = list(mapping.map_forward(six))
        mapping.map_forward(six, out=out)
        with pytest.raises(madspace.ShapeError, match=r"^out\[0\] .*: expected shape \(1, 4\), got \(6, 4\)$"):
            mapping.map_forward(tensors, out=out)


@pytest.mark.parametrize("refused", [None, 0, 1, 5])
def test_parts_of_one_block_that_a_library_keeps_or_refuses(device, fake, mapping, refused):
    """The memory goes back once, behind one noted use of the library's stream, with the last part."""
    stream, theirs = Stream(device), Stream(device)
    array, table = framework(current={"stream": theirs.handle})
    kinds = type(table.to_object)
    parts = []

    def keep(managed, made):
        parts.append(managed[0])
        result = object()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(result))
        made[0] = id(result)
        if len(parts) == refused:
            table.to_object = refuse
        return 0

    refuse, keeps = ctypes.cast(fake.lib.fake_refuse, kinds), kinds(keep)
    table.to_object = refuse if refused == 0 else keeps
    _, tensors = inputs(stream)
    arrays = [array(x) for x in tensors]
    gc.collect()
    fake.clear_log()
    if refused is None:
        assert len(mapping.map_forward(arrays, stream=stream)) == 6
    else:
        with pytest.raises(madspace.MadspaceError, match="could not take over a result: no room left"):
            mapping.map_forward(arrays, stream=stream)
    assert len(parts) == (6 if refused is None else refused)
    for part in parts:
        assert "cuMemFreeAsync" not in fake.names()
        fake.clear_log()
        DELETER(part.deleter)(ctypes.addressof(part))
    # Behind the last use, which is on a stream that is not the memory's own.
    names = [x for x in fake.names() if x in ("cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync")]
    assert names[-3:] == ["cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync"]
    assert names.count("cuMemFreeAsync") == 1


@pytest.mark.parametrize(
    ("how", "error"), [("fake_refuse", madspace.MadspaceError), ("fake_interrupt", KeyboardInterrupt)]
)
def test_what_is_not_taken_over_is_freed(device, fake, mapping, how, error):
    stream = Stream(device)
    array, table = framework(current={"stream": stream.handle})
    _, tensors = inputs(stream)
    arrays = [array(x) for x in tensors]
    mapping.map_forward(arrays)
    table.to_object = ctypes.cast(getattr(fake.lib, how), type(table.to_object))
    gc.collect()
    before = fake.counts()["bytes"]
    with pytest.raises(error):
        mapping.map_forward(arrays)
    gc.collect()
    assert fake.counts()["bytes"] == before
