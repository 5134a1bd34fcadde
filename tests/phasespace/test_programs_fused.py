"""Fused kernels: the results of the interpreter and the CPU, and a disk cache that never stands in the way."""

import numpy as np
import pytest
from program_points import chain, chain_arguments, function_of, fuse_programs, upstream

import madspace
from madspace import FunctionRuntime, batch_float, batch_four_vec, batch_int, single_float
from madspace.cpu._programs import op_table
from madspace.phasespace import jit
from madspace.phasespace.compile import compile_graph
from madspace.phasespace.fused import fused_name, fused_source

pytestmark = pytest.mark.needs("nvrtc")

RANDOM = np.random.default_rng(8)
ARRAYS = RANDOM.random(70), RANDOM.random((70, 4)), RANDOM.integers(-9, 9, 70, dtype=np.int32), np.array(2.0)


def mixed():
    """Return a function with every kind of argument and result."""

    def fill(b, x, p, n, s):
        chosen = b.gather(n, b.stack([x, s, 1.5]))
        return [b.mul(x, s), b.add(p, p), b.add_int(n, 1), chosen, b.square(s), b.stack([1, 2]), p]

    return function_of([batch_float, batch_four_vec, batch_int, single_float], fill)


def put(*arrays):
    return [madspace.asarray(x, device="cuda") for x in arrays]


def check(results, expected, tolerance=1e-7):
    for result, reference in zip(results, expected, strict=True):
        result = result.numpy()
        assert (result.shape, result.dtype) == (reference.shape, reference.dtype)
        scale = np.abs(reference).max(initial=0.0)
        assert np.all(np.abs(result - reference) <= tolerance * scale)


@pytest.mark.parametrize("name", ["t_chain_forward", "event_forward", "breit_wigner_inverse"])
def test_the_results_of_the_cpu(device, fuse, name):
    function, context, inputs, _ = upstream(name)
    runtime = fuse(function, context)
    check(runtime.call(put(*inputs)), FunctionRuntime(function, context).call(inputs))


def test_every_kind_of_argument_and_result(device, fuse):
    runtime = fuse(mixed())
    expected = mixed()(*ARRAYS)
    out = [madspace.asarray(np.full_like(x, -77), device="cuda") for x in expected]
    check(runtime.call(put(*ARRAYS), out=out), expected, 0)
    check(runtime.call([*put(*ARRAYS[:3]), 2.0]), expected, 0)
    x, p, n, s = ARRAYS
    wide = put(np.pad(p, [(0, 0), (1, 0)]))[0][:, 1:]
    check(runtime.call([*put(x[:1]), wide, *put(n, s)]), mixed()(x[:1], p, n, s), 0)
    check(runtime.call(put(x[:0], p[:0], n[:0], s)), mixed()(x[:0], p[:0], n[:0], s), 0)


def test_a_kernel_is_compiled_once(device, fuse, monkeypatch):
    compiled = []
    compile_image = jit.compile_image
    monkeypatch.setattr(jit, "compile_image", lambda *a, **k: compiled.append(1) or compile_image(*a, **k))
    for _ in range(2):
        runtime = fuse(mixed())
        for _ in range(2):
            runtime.call(put(*ARRAYS))
    assert len(compiled) == 1
    (path,) = jit.cache_folder().iterdir()
    content = path.read_bytes()
    for damaged in (content[:-1], content[:40], b"", content[:-1] + bytes([content[-1] ^ 1])):
        path.write_bytes(damaged)
        check(fuse(mixed()).call(put(*ARRAYS)), mixed()(*ARRAYS), 0)
        assert path.read_bytes() == content
    assert len(compiled) == 5
    assert [p.name for p in jit.cache_folder().iterdir()] == [path.name]


def test_another_target_or_package_has_another_entry(monkeypatch):
    key = jit._key("source", "sm_90a")
    assert jit._key("source", "sm_80") != key
    assert jit._key("sources", "m_90a") != key
    monkeypatch.setattr(jit, "_headers", lambda: b"other")
    assert jit._key("source", "sm_90a") != key


@pytest.mark.parametrize("place", ["a file", "read-only", "full"])
def test_a_cache_that_cannot_be_written(device, fuse, tmp_path, monkeypatch, place):
    folder = tmp_path / "cache"
    if place == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        call = {"read-only": (jit.tempfile, "mkstemp"), "full": (jit.os, "fdopen")}[place]
        original = getattr(*call)

        def refuse(*args, **options):
            if place == "full":
                original(*args, **options).close()
            raise OSError(28 if place == "full" else 30, "no")

        monkeypatch.setattr(*call, refuse)
    monkeypatch.setenv("MADSPACE_CACHE_DIR", str(folder))
    check(fuse(mixed()).call(put(*ARRAYS)), mixed()(*ARRAYS), 0)
    assert folder.is_file() or not list(folder.iterdir())


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("0", False), (None, False)])
def test_the_switch_of_the_environment(monkeypatch, value, expected):
    monkeypatch.delenv("MADSPACE_JIT", raising=False)
    if value is not None:
        monkeypatch.setenv("MADSPACE_JIT", value)
    assert jit.is_wanted(None) is expected
    assert jit.is_wanted(not expected) is not expected


@pytest.mark.parametrize("n", [3, 5])
def test_chains(device, fuse, n):
    """Fused and interpreted; momenta sum up to that of the beams."""
    function, arguments = chain(n), chain_arguments(n, 150)
    expected = FunctionRuntime(function).call(arguments)
    fused = fuse(function).call(put(*arguments))
    check(fused, expected)
    check(fuse(function, kernels="interpreted").call(put(*arguments)), expected)
    total = sum(x.numpy() for x in fused[2:-1])
    np.testing.assert_allclose(total, np.broadcast_to([1000.0, 0, 0, 0], total.shape), atol=1e-9)


def test_shipped_sources_are_those_of_the_tool():
    for name, text in fuse_programs.sources():
        assert (fuse_programs.FOLDER / name).read_text() == text, "run tools/fuse_programs.py"


def test_a_shipped_kernel_runs_without_a_compiler(device, program_kernels, monkeypatch):
    monkeypatch.setattr(jit, "compile_image", None)
    n, batch = 4, 150
    function, drawn = fuse_programs.mapped(n)
    program = compile_graph(function, op_table())
    for randoms in ((), drawn):
        assert jit.shipped_stem(fused_name(program, [False] * (n + 3), randoms)) == "fused_chains"
    arguments = chain_arguments(n, batch)
    check(FunctionRuntime(function).call(put(*arguments)), FunctionRuntime(function).call(arguments))
    unknown = [None] * len(drawn)
    conditions = arguments[len(drawn) :]
    expected = FunctionRuntime(function).call([*unknown, *conditions], seed=7, offset=3)
    check(FunctionRuntime(function).call([*unknown, *put(*conditions)], seed=7, offset=3), expected)


def test_the_launched_kernel(fake, program_kernels):
    """Fused where it comes with the package, else interpreted."""
    mapped, _ = fuse_programs.mapped(3)
    for function, arguments, prefix in [(mapped, chain_arguments(3, 5), "fused_"), (mixed(), ARRAYS, "program_")]:
        runtime, arrays = FunctionRuntime(function), put(*arguments)
        fake.clear_log()
        runtime.call(arrays)
        names = [call.args["name"] for call in fake.log("cuLibraryGetKernel")]
        assert [name.startswith(prefix) for name in names] == [True], names


@pytest.mark.parametrize(
    ("threads", "bounds"), [(1024, "256, 4"), (768, "256, 3"), (640, "128, 5"), (512, "256, 2"), (256, "256, 1")]
)
def test_blocks_share_a_multiprocessor(threads, bounds):
    function, _ = fuse_programs.mapped(2)
    program = compile_graph(function, op_table())
    text = fused_source(program, [False] * len(program.outputs), threads=threads)
    assert f"__launch_bounds__({bounds})" in text
