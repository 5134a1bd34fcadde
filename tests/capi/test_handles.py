"""Handles: what is null, released, foreign or of another kind is refused by every function, and nothing breaks."""

import ctypes
import re
import threading

import pytest
from capi_table import HEADER, ApiError, functions, parameter_types

KINDS = ("device", "stream", "event", "workspace", "module", "kernel", "capture", "graph", "program")
HANDLE = re.compile(rf"\bms_({'|'.join(KINDS)}) (\w+)$")


def handle_parameters(parameters):
    """Return position and kind of each handle among parameters."""
    found = []
    for i, parameter in enumerate(re.sub(r"\(\*\w+\)\([^)]*\)", "*f", parameters).split(", ")):
        if match := HANDLE.search(parameter):
            found.append((i, match[1]))
    return found


TAKING = [
    pytest.param(name, i, kind, parameters, id=f"{name}-{i}")
    for name, _, parameters in functions(HEADER.read_text())
    for i, kind in handle_parameters(parameters)
]
FUNCTIONS = [
    pytest.param(name, parameters, id=name)
    for name, _, parameters in functions(HEADER.read_text())
    if re.search(r"\*|\bms_", parameters)
]


@pytest.fixture
def handles(api, gpu, queue, fill_kernel, kernels_ptx, memory):
    """Return an open handle of each kind."""
    made = {"device": gpu, "stream": queue, "kernel": fill_kernel}
    made["event"] = api.make("event_create", gpu, 0)
    made["workspace"] = api.make("workspace_create", gpu, 512, queue)
    made["module"] = api.make("module_load", kernels_ptx, len(kernels_ptx), None)
    other = api.make("stream_create", gpu, 0)
    capture = api.make("capture_begin", other)
    made["graph"] = api.make("capture_end", capture)
    made["capture"] = api.make("capture_begin", other)
    yield made
    for kind in ("event", "workspace", "module", "graph", "capture"):
        getattr(api, f"{kind}_release")(made[kind])
    api.stream_release(other)


def arguments_for(types, others):
    """Return arguments of these types: zeros and room for results, but for what is given by position."""
    room = ctypes.create_string_buffer(4096)
    return [
        others.get(i, ctypes.addressof(room) if kind is ctypes.c_void_p else kind(1).value)
        for i, kind in enumerate(types)
    ]


@pytest.mark.parametrize(("name", "position", "kind", "parameters"), TAKING)
def test_bad_handles_are_refused(api, handles, name, position, kind, parameters):
    good = {i: handles.get(other) for i, other in handle_parameters(parameters) if i < position}
    if name == "stream_join" or None in good.values():
        good = {i: handle or 0 for i, handle in good.items()}
    foreign = ctypes.create_string_buffer(64)
    released = api.make("event_create", handles["device"], 0)
    api.event_release(released)
    wrong = handles["event" if kind != "event" else "stream"]
    for handle in (None, released, wrong, 1, 2**64 - 1, ctypes.addressof(foreign)):
        if handle is None and (name.endswith("_release") or name == "workspace_check"):
            continue  # nothing to release; no stream to check
        with pytest.raises(ApiError) as raised:
            getattr(api, name)(*arguments_for(parameter_types(parameters), good | {position: handle}))
        assert raised.value.name == "MS_ERROR_HANDLE", raised.value
        assert raised.value.driver_code == 0


@pytest.mark.parametrize(("name", "parameters"), FUNCTIONS)
def test_null_everywhere_breaks_nothing(api, name, parameters):
    types = parameter_types(parameters)
    nulls = [kind() if kind is ctypes.py_object else None if kind is ctypes.c_void_p else 0 for kind in types]
    nothing_to_do = name.endswith("_release") or name == "free"
    code = api.raw[name](*nulls)
    assert (code == 0) == nothing_to_do
    if code:
        assert api.last_error().decode()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("device", "program", "capture")])
def test_a_handle_is_released_once(api, gpu, queue, kernels_ptx, kind):
    module = api.make("module_load", kernels_ptx, len(kernels_ptx), None)
    made = {
        "stream": lambda: api.make("stream_create", gpu, 0),
        "event": lambda: api.make("event_create", gpu, 0),
        "workspace": lambda: api.make("workspace_create", gpu, 64, queue),
        "module": lambda: api.make("module_load", kernels_ptx, len(kernels_ptx), None),
        "kernel": lambda: api.make("kernel_get", module, b"ms_test_fill"),
        "graph": lambda: api.make("capture_end", api.make("capture_begin", queue)),
    }[kind]()
    release = getattr(api, f"{kind}_release")
    release(made)
    with pytest.raises(ApiError, match="MS_ERROR_HANDLE") as raised:
        release(made)
    assert "released" in raised.value.message
    api.module_release(module)


def test_one_of_many_threads_releases(api, gpu):
    codes = []
    for _ in range(50):
        handle = api.make("event_create", gpu, 0)
        ready = threading.Barrier(4)

        def release(handle=handle, ready=ready):
            ready.wait()
            codes.append(api.raw["event_release"](handle))

        threads = [threading.Thread(target=release) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(codes) == [0] * 50 + [api.MS_ERROR_HANDLE] * 150


def test_places_are_used_again_and_old_handles_stay_dead(api, gpu):
    old = [api.make("event_create", gpu, 0) for _ in range(20)]
    for handle in old:
        api.event_release(handle)
    new = [api.make("event_create", gpu, 0) for _ in range(20)]
    assert not set(old) & set(new)
    for handle in old:
        with pytest.raises(ApiError, match="MS_ERROR_HANDLE"):
            api.event_query(handle, ctypes.byref(ctypes.c_int()))
    for handle in new:
        api.event_release(handle)


def test_many_handles(api, gpu):
    handles = [api.make("event_create", gpu, 0) for _ in range(3000)]  # more than a chunk of the table
    assert len(set(handles)) == 3000
    for handle in handles:
        assert api.number("event_query", handle) == 1
        api.event_release(handle)
