"""FunctionModule on a GPU: the CPU's gradients, the streams of both ways, and captures of both."""

import threading

import numpy as np
import pytest
from program_points import function_of

import madspace
from madspace import TPropagatorMapping, batch_float

pytestmark = [pytest.mark.gpu, pytest.mark.needs("torch", "nvrtc")]

F = batch_float
N_EVENTS = 300
CYCLES = 200_000_000  # of torch.cuda._sleep: some 100 ms
MODES = ("global", "thread_local", "relaxed")


@pytest.fixture(autouse=True)
def _kernels(device, tmp_path, monkeypatch):
    """Run on device 0, with a cache of its own."""
    monkeypatch.setenv("MADSPACE_CACHE_DIR", str(tmp_path / "kernels"))


@pytest.fixture
def torch():
    import torch

    return torch


@pytest.fixture
def module():
    """Return a module of 2 -> 3 events."""
    from madspace.torch import FunctionModule

    return FunctionModule(TPropagatorMapping([0, 1], 0.8).forward_function())


@pytest.fixture
def square():
    """Return a module of x * x."""
    return module_of([F], lambda b, x: [b.square(x)])


def module_of(types, fill):
    from madspace.torch import FunctionModule

    return FunctionModule(function_of(types, fill))


def arguments(torch, seed, device="cuda"):
    """Return random numbers that want gradients, and what else the module takes."""
    rng = np.random.default_rng(seed)
    r = [torch.from_numpy(x).to(device).requires_grad_() for x in 0.1 + 0.8 * rng.random((5, N_EVENTS))]
    fixed = [500.0, 173.0, 100.0, 20.0]
    return r, [torch.full((N_EVENTS,), x, dtype=torch.float64, device=device) for x in fixed]


def output_grads(torch, device="cuda"):
    """Return gradients of the module's results."""
    rng = np.random.default_rng(8)
    scales = [1.0] * 5 + [1e-8]
    shapes = [(N_EVENTS, 4)] * 5 + [(N_EVENTS,)]
    return [
        torch.from_numpy(scale * rng.normal(size=shape)).to(device) for scale, shape in zip(scales, shapes, strict=True)
    ]


def on_the_cpu(torch, module, seed):
    """Return the gradients that the CPU gives."""
    r, fixed = arguments(torch, seed, "cpu")
    return torch.autograd.grad(module(*r, *fixed), r, output_grads(torch, "cpu"))


def same(found, expected):
    for x, y in zip(found, expected, strict=True):
        scale = float(y.abs().max())
        np.testing.assert_allclose(x.detach().cpu().numpy(), y.numpy(), rtol=0, atol=1e-12 * scale)


def warm_up(torch, module, r, fixed, grads):
    """Compile and load the kernels of both ways: whatever is done at first use may wait."""
    torch.autograd.grad(module(*r, *fixed), r, grads)
    torch.cuda.synchronize()


def test_gradients_are_those_of_the_cpu(torch, module):
    (r, fixed), grads = arguments(torch, 1), output_grads(torch)
    results = module(*r, *fixed)
    assert all(x.is_cuda and x.requires_grad for x in results)
    found = torch.autograd.grad(results, r, grads)
    assert all(x.is_cuda and x.shape == (N_EVENTS,) for x in found)
    same(found, on_the_cpu(torch, module, 1))


def test_gradients_by_backward(torch, module):
    (r, fixed), grads = arguments(torch, 2), output_grads(torch)
    torch.autograd.backward(module(*r, *fixed), grads)
    same([x.grad for x in r], on_the_cpu(torch, module, 2))


def test_a_sum_of_one_number_for_every_event(torch):
    module = module_of([F, F], lambda b, x, a: [b.mul(x, a)])
    x = torch.arange(1.0, 5.0, dtype=torch.float64, device="cuda", requires_grad=True)
    a = torch.tensor([3.0], dtype=torch.float64, device="cuda", requires_grad=True)
    module(x, a).sum().backward()
    assert (x.grad.tolist(), a.grad.tolist()) == ([3.0] * 4, [10.0])


def test_one_module_twice_in_a_graph(torch):
    module = module_of([F, F], lambda b, x, y: [b.mul(x, y)])
    x = torch.tensor([2.0, 3.0], dtype=torch.float64, device="cuda", requires_grad=True)
    module(module(x, x), x).sum().backward()
    np.testing.assert_allclose(x.grad.cpu(), [12.0, 27.0], rtol=1e-15)


def test_the_way_back_can_be_taken_twice(torch, module):
    (r, fixed), grads = arguments(torch, 3), output_grads(torch)
    results = module(*r, *fixed)
    first = torch.autograd.grad(results, r, grads, retain_graph=True)
    again = torch.autograd.grad(results, r, grads)
    expected = on_the_cpu(torch, module, 3)
    same(first, expected)
    same(again, expected)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(results, r, grads)


# ---- streams ----


def late_copies(torch, tensors):
    """Return copies that want gradients, on torch's current stream behind a slow kernel; NaN until then."""
    late = [torch.full_like(x, float("nan")) for x in tensors]
    torch.cuda._sleep(CYCLES)
    for x, y in zip(late, tensors, strict=True):
        x.copy_(y.detach())
    return [x.requires_grad_() for x in late]


class Noted:
    """What the ways back of a module have run on: handles of streams, as torch and as madspace tell, and threads."""

    def __init__(self, torch, module, monkeypatch):
        self.torchs, self.ours, self.threads = [], [], []
        call = module.runtime._arrays_backward

        def noted(grads, stored, flags):
            self.torchs.append(torch.cuda.current_stream().cuda_stream)
            self.ours.append(madspace.asarray(next(x for x in stored if x is not None)).stream.handle)
            self.threads.append(threading.get_ident())
            return call(grads, stored, flags)

        monkeypatch.setattr(module.runtime, "_arrays_backward", noted)


def test_the_way_there_runs_on_torchs_current_stream(torch, module):
    r, fixed = arguments(torch, 4)
    warm_up(torch, module, r, fixed, output_grads(torch))
    side = torch.cuda.Stream()
    for _ in range(2):  # the first time torch's allocator gets memory for the stream, which may wait
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            results = module(*late_copies(torch, r), *fixed)
            sums = [x.detach() * 1.0 for x in results]
            is_done = side.query()
            del results
    assert not is_done, "the call must not have waited"
    side.synchronize()
    for x, y in zip(sums, module(*(x.detach().cpu() for x in (*r, *fixed))), strict=True):
        np.testing.assert_allclose(x.cpu(), y, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("where", ["same", "other", "default", "thread"])
def test_the_way_back_runs_on_the_stream_of_the_way_there(torch, module, monkeypatch, where):
    """It reads what that stream is about to write, whatever stream is current, whatever thread asks for it."""
    (r, fixed), grads = arguments(torch, 5), output_grads(torch)
    expected = on_the_cpu(torch, module, 5)
    warm_up(torch, module, r, fixed, grads)
    noted = Noted(torch, module, monkeypatch)
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        late = late_copies(torch, r)
        results = module(*late, *fixed)
    behind = {"same": side, "other": other}.get(where, torch.cuda.default_stream())
    found = []

    def go_back():
        with torch.cuda.stream(behind):
            found.extend(x * 1.0 for x in torch.autograd.grad(results, late, grads))

    if where == "thread":
        thread = threading.Thread(target=go_back)
        thread.start()
        thread.join()
    else:
        go_back()
    assert not side.query(), "nothing must have waited"
    assert noted.torchs == noted.ours == [side.cuda_stream]
    assert noted.threads != [threading.get_ident()]  # autograd has a thread for each device
    behind.synchronize()
    same(found, expected)


def test_each_way_back_has_its_own_stream(torch, square, monkeypatch):
    x = torch.tensor([2.0, 3.0], dtype=torch.float64, device="cuda", requires_grad=True)
    square(x).sum().backward()
    torch.cuda.synchronize()
    noted = Noted(torch, square, monkeypatch)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(first):
        (late,) = late_copies(torch, [x])
        y = square(late)
    second.wait_stream(first)
    with torch.cuda.stream(second):
        z = square(y)
    torch.cuda.current_stream().wait_stream(second)
    z.sum().backward()
    assert noted.torchs == noted.ours == [second.cuda_stream, first.cuda_stream]
    np.testing.assert_allclose(late.grad.cpu(), [32.0, 108.0], rtol=1e-15)


def test_a_block_of_madspace_chooses_the_stream_of_the_way_there(torch, module):
    """The way back is in another thread, which the block does not reach; it comes behind all the same."""
    (r, fixed), grads = arguments(torch, 6), output_grads(torch)
    warm_up(torch, module, r, fixed, grads)
    own = madspace.Stream()
    late = late_copies(torch, r)
    with madspace.stream(own):
        found = torch.autograd.grad(module(*late, *fixed), late, grads)
    same(found, on_the_cpu(torch, module, 6))


def test_gradients_are_not_reused_under_another_stream(torch, square):
    """Torch's allocator knows of their uses there: autograd tells it, and it would not listen for other memory."""
    n = 1 << 20
    x = torch.full((n,), 3.0, dtype=torch.float64, device="cuda", requires_grad=True)
    square(x).sum().backward()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    first.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(first):
        y = x * 1.0  # its way back, on this stream, reads what that of the module has made on the other
        torch.cuda._sleep(CYCLES)
    second.wait_stream(first)
    with torch.cuda.stream(second):
        z = square(y)
    torch.cuda.synchronize()
    grad = torch.ones_like(z)
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        torch.cuda._sleep(CYCLES)
    (found,) = torch.autograd.grad(z, x, grad)
    with torch.cuda.stream(second):
        for _ in range(4):  # most likely in the same place, if it was given back
            square(torch.zeros(n, dtype=torch.float64, device="cuda"))
            torch.full((n,), float("nan"), dtype=torch.float64, device="cuda")
    assert found.unique().tolist() == [6.0]


# ---- captures ----


def replayed(torch, module, both_ways, replay):
    """Capture both ways, and replay them on other inputs."""
    (r, fixed), grads = arguments(torch, 7), output_grads(torch)
    warm_up(torch, module, r, fixed, grads)
    results, found = both_ways(r, fixed, grads)
    for seed in (7, 8, 9):
        with torch.no_grad():
            for x, y in zip(r, arguments(torch, seed)[0], strict=True):
                x.copy_(y)
            for x in (*results, *found):
                x.fill_(float("nan"))
        torch.cuda.synchronize()
        replay()
        torch.cuda.synchronize()
        same(found, on_the_cpu(torch, module, seed))
        for x, y in zip(results, module(*(x.detach().cpu() for x in (*r, *fixed))), strict=True):
            np.testing.assert_allclose(x.detach().cpu(), y, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_of_torch(torch, module, mode):
    graph = torch.cuda.CUDAGraph()

    def both_ways(r, fixed, grads):
        with torch.cuda.graph(graph, capture_error_mode=mode):
            results = module(*r, *fixed)
            return results, torch.autograd.grad(results, r, grads)

    replayed(torch, module, both_ways, graph.replay)


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_of_madspace(torch, module, stream, mode):
    executables = []

    def both_ways(r, fixed, grads):
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)), madspace.capture(stream, mode) as graph:
            results = module(*r, *fixed)
            found = torch.autograd.grad(results, r, grads)
        assert graph.node_counts() == {"kernel": 2}
        executables.append(graph.instantiate())
        return results, found

    replayed(torch, module, both_ways, lambda: executables[0].launch(stream))


def test_a_step_of_an_optimizer_in_a_graph_of_torch(torch, square):
    """What torch does around both ways is captured with them: the sum, the gradient's place, the step."""
    x = torch.tensor([2.0, 3.0], dtype=torch.float64, device="cuda", requires_grad=True)
    x.grad = torch.zeros_like(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        square(x).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.grad.zero_()
        square(x).sum().backward()
        with torch.no_grad():
            x.sub_(0.25 * x.grad)
    for expected in ([1.0, 1.5], [0.5, 0.75]):
        graph.replay()
        torch.cuda.synchronize()
        assert x.tolist() == expected
