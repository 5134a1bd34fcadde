"""NumPy to a GPU and back: what is queued where and when, what is waited for, what failures leave. Fake driver."""

import sys
from collections import Counter

import numpy as np
import pytest
from host_points import ROW, host_inputs, pinned, put
from program_points import function_of

import madspace
from madspace import PinnedBuffer, TPropagatorMapping
from madspace.phasespace import host_chunks

N = 400
CONTEXT = {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"}
UP, LAUNCH, DOWN, WAIT = "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync", "cuEventSynchronize"


@pytest.fixture(autouse=True)
def _kernels(device, fused_kernels, program_kernels):
    """Run on device 0."""


@pytest.fixture
def mapping():
    return TPropagatorMapping([1, 0], 0.8)


@pytest.fixture
def inputs():
    return host_inputs(N)


@pytest.fixture
def chunks(monkeypatch):
    """Let a call have eight chunks."""
    monkeypatch.setattr(host_chunks, "CHUNK_BYTES", N // 8 * ROW + 16 * 256)
    return 8


@pytest.fixture
def late(fake, device):
    """Let new streams, and the side streams of the next fork, do nothing before somebody waits for them."""
    sides = madspace.fork_streams(device.default_stream, 3)
    handles = [side.handle for side in sides]
    madspace.join_streams(device.default_stream, sides)
    del sides  # the next fork has them again
    for handle in handles:
        fake.defer(handle)
    fake.defer_new()
    yield fake
    fake.defer_new(False)
    for handle in handles:
        fake.defer(handle, False)


def steps(fake):
    """Return the copies, launches and waits in order, with the stream of each."""
    wanted = {UP, LAUNCH, DOWN, WAIT, "cuStreamSynchronize"}
    return [(call.name, call.args.get("stream")) for call in fake.log() if call.name in wanted]


def test_copies_and_launches_overlap(late, mapping, inputs, chunks, device):
    """Three chunks are on their way before the host waits for one; then one is queued for each that is done."""
    stream = madspace.Stream(device)
    late.clear_log()
    mapping.map_forward(inputs, device="cuda", stream=stream)
    found = steps(late)
    names = [name for name, _ in found]
    one = [UP, LAUNCH, DOWN]
    assert names == one * 3 + [WAIT, *one] * (chunks - 3) + [WAIT] * 3
    streams = [where for name, where in found if name != WAIT]
    first = streams[0], streams[3], streams[6]
    assert len({*first, stream.handle}) == 4
    assert streams == [first[i % 3] for i in range(chunks) for _ in one]


def test_every_byte_goes_once(fake, mapping, inputs, chunks):
    mapping.map_forward([*inputs[:5], *(x[:1] for x in inputs[5:])], device="cuda")
    fake.clear_log()
    mapping.map_forward([*inputs[:5], *(x[:1] for x in inputs[5:])], device="cuda")
    up = [call.args["size"] for call in fake.log(UP)]
    down = [call.args["size"] for call in fake.log(DOWN)]
    size = N // len(up)
    assert set(down) == {sum(-(-8 * k * size // 256) * 256 for k in (4, 4, 4, 4, 4, 1))}
    columns = 5 * (-(-8 * size // 256) * 256)
    assert up == [columns + 4 * 256] * 3 + [columns] * (len(up) - 3)  # what all events share once for each slot


def test_with_page_locked_arrays_it_waits_once(late, mapping, inputs, chunks):
    expected = [x.numpy() for x in mapping.map_forward(put(inputs))]
    arrays, out = [pinned(x) for x in inputs], [pinned(np.full(x.shape, np.nan)) for x in expected]
    late.clear_log()
    mapping.map_forward(arrays, out=out, device="cuda")
    names = [name for name, _ in steps(late)]
    assert Counter(names) == {UP: 9 * chunks, LAUNCH: chunks, DOWN: 6 * chunks, "cuStreamSynchronize": 1}
    assert names[-1] == "cuStreamSynchronize"
    up = [call.args["src"] for call in late.log(UP)]
    assert up[:9] == [x.ctypes.data for x in arrays]
    for x, y in zip(out, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_small_batch_is_one_chunk_on_the_streams_own(late, mapping, inputs, device):
    stream = madspace.Stream(device)
    mapping.map_forward(inputs, device="cuda", stream=stream)
    late.clear_log()
    mapping.map_forward(inputs, device="cuda", stream=stream)
    assert steps(late) == [(UP, stream.handle), (LAUNCH, stream.handle), (DOWN, stream.handle), (WAIT, None)]
    assert not {"cuStreamCreateWithPriority", "cuMemHostAlloc"} & set(late.names())


def test_no_events_need_no_device(fake, mapping):
    fake.clear_log()
    result = mapping.map_forward(host_inputs(0), device="cuda")
    assert [x.shape for x in result] == [(0, 4)] * 5 + [(0,)]
    assert set(fake.names()) <= {*CONTEXT, "cuStreamIsCapturing"}


def test_the_interpreter_runs_meanwhile(fake, mapping, inputs, chunks):
    held = []
    with fake.calling(WAIT, held.append):
        mapping.map_forward(inputs, device="cuda")
    assert set(held) <= {False}


@pytest.mark.parametrize(
    ("arrays", "options"),
    [
        (lambda x: x[:5], {}),
        (lambda x: [x[0][:7], *x[1:]], {}),
        (lambda x: put(x), {}),
        (lambda x: x, {"out": [None] * 5}),
        (lambda x: x, {"out": [np.lib.stride_tricks.as_strided(np.zeros(4 * N), (N, 4), (8, 8)), *[None] * 5]}),
        (lambda x: x, {"device": 7}),
    ],
    ids=["count", "length", "place", "out", "rows", "device"],
)
def test_a_refused_call_queues_nothing(fake, mapping, inputs, chunks, arrays, options):
    given = arrays(inputs)
    before = fake.counts()
    fake.clear_log()
    with pytest.raises((madspace.MadspaceError, ValueError)):
        mapping.map_forward(given, **{"device": "cuda"} | options)
    assert not {UP, LAUNCH, DOWN, "cuMemHostAlloc", "cuMemAllocFromPoolAsync"} & set(fake.names())
    assert fake.counts() == before


def test_what_does_not_fit_a_gpu_is_refused_before_it_is_copied(fake):
    many = function_of([madspace.batch_float_array(1000)], lambda b, a: [b.reduce_sum(a)])
    fake.clear_log()
    with pytest.raises(madspace.UnsupportedOpError, match="at once on"):
        many(np.ones((2, 1000)), device="cuda")
    assert UP not in fake.names()


def test_blocks_are_kept_until_they_are_trimmed(fake, mapping, inputs, chunks):
    PinnedBuffer.trim()
    before = fake.counts()["host_memory"]
    mapping.map_forward(inputs, device="cuda")
    assert fake.counts()["host_memory"] == before + 3
    fake.clear_log()
    for _ in range(3):
        mapping.map_forward(inputs, device="cuda")
    assert "cuMemHostAlloc" not in fake.names()
    PinnedBuffer.trim()
    assert fake.counts()["host_memory"] == before


def test_after_a_failure_nothing_is_queued(late, mapping, inputs, chunks, device):
    """The third launch fails while nothing that was queued has run."""
    out = [np.full((N, 4), np.nan) for _ in range(5)] + [pinned(np.full(N, np.nan))]
    mapping.map_forward(inputs, device="cuda")
    late.clear_log()
    with late.failing(LAUNCH, nth=3), pytest.raises(madspace.DriverError):
        mapping.map_forward(inputs, out=out, device="cuda")
    streams = {call.args["stream"] for call in late.log(UP)}
    assert len(streams) == 3
    assert not any(late.pending(stream) for stream in streams)
    assert np.isnan(out[0]).all()


def results_after(late, mapping, arrays, streams):
    """Return what a call raised, and whether its page-locked results changed when all that was queued had run."""
    out = [pinned(np.full((N, 4), np.nan)) for _ in range(5)] + [pinned(np.full(N, np.nan))]
    error = None
    try:
        mapping.map_forward(arrays, out=out, device="cuda")
    except (madspace.DriverError, KeyboardInterrupt) as raised:
        error = raised
    then = [x.copy() for x in out]
    for stream in streams:
        late.run(stream)
    is_over = all(np.array_equal(x, y, equal_nan=True) for x, y in zip(out, then, strict=True))
    return error, is_over


@pytest.fixture
def streams_of_calls(late, mapping, inputs, chunks):
    """Return the side streams of a call, which do nothing before somebody waits for them."""
    late.clear_log()
    mapping.map_forward(inputs, device="cuda")
    return sorted({call.args["stream"] for call in late.log(UP)})


@pytest.mark.parametrize("name", ["cuEventRecord", "cuStreamWaitEvent", "cuMemFreeAsync"])
def test_whatever_fails_nothing_is_written_later(late, mapping, inputs, streams_of_calls, name):
    """Results in page-locked memory, which the device writes while the host waits for nothing but the end."""
    arrays = [pinned(x) for x in inputs]
    late.clear_log()
    results_after(late, mapping, arrays, streams_of_calls)
    total = len(late.log(name))
    assert total >= 3
    for nth in range(1, total + 1):
        with late.failing(name, nth=nth):
            error, is_over = results_after(late, mapping, arrays, streams_of_calls)
        assert error is not None, nth
        assert is_over, nth


def test_wherever_it_is_interrupted_nothing_is_written_later(late, mapping, inputs, streams_of_calls):
    arrays = [pinned(x) for x in inputs]
    lines = 0

    def interrupt_at(last):
        def trace(frame, event, _):
            nonlocal lines
            if not frame.f_code.co_filename.endswith("host_chunks.py"):
                return None
            lines += event == "line"
            if lines == last:
                lines += 1
                raise KeyboardInterrupt
            return trace

        return trace

    last, is_whole = 1, False
    while not is_whole:
        lines = 0
        before = sys.gettrace()
        sys.settrace(interrupt_at(last))
        try:
            error, is_over = results_after(late, mapping, arrays, streams_of_calls)
        finally:
            sys.settrace(before)
        assert is_over, last
        is_whole, last = error is None, last + 7
    assert last > 500


@pytest.mark.parametrize("kind", ["staged", "page-locked", "small"])
def test_each_failure_leaves_nothing(fake, device, mapping, inputs, monkeypatch, kind):
    if kind != "small":
        monkeypatch.setattr(host_chunks, "CHUNK_BYTES", N // 4 * ROW + 16 * 256)
    place = pinned if kind == "page-locked" else np.array
    arrays = [place(x) for x in inputs]
    out = [place(np.zeros((N, 4))) for _ in range(5)] + [place(np.zeros(N))]

    def action():
        mapping.map_forward(arrays, out=out, device="cuda")

    action()
    reference = [x.copy() for x in out]
    PinnedBuffer.trim()
    before = fake.handles()
    tried, n_streams = 0, before["stream"]
    for name, error in fake.each_failure(action):
        assert error is None or isinstance(error, madspace.DriverError), name
        tried += 1
        del error
        PinnedBuffer.trim()
        left = fake.handles()
        if name in {
            *CONTEXT,
            "cuStreamIsCapturing",
            "cuMemFreeAsync",
        }:  # a failed end loses what it could not give back
            assert 0 <= left["device_memory"] - before["device_memory"] <= 1
            before |= {kind: left[kind] for kind in ("device_memory", "bytes")}
        before["stream"] = max(left["stream"], before["stream"])  # idle side streams are kept
        assert left == before, name
    assert tried > 10
    assert fake.handles()["stream"] <= n_streams + 3
    for x in out:
        x.fill(0)
    action()
    for x, y in zip(out, reference, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.needs("no_driver")
def test_without_a_gpu_the_error_says_so(fake, run_python):
    done = run_python(
        """
import numpy as np
import madspace
try:
    madspace.TPropagatorMapping([0]).map_forward([np.full(3, 0.5)] * 5, device="cuda")
except madspace.DriverNotFoundError as error:
    print("refused", isinstance(error, OSError))
""",
        driver=None,
    )
    assert (done.returncode, done.stdout) == (0, "refused True\n"), done.stderr
