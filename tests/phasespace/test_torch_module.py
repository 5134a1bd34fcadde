"""FunctionModule: torch's view of a function, its gradients, double use and what is refused."""

import sys

import numpy as np
import pytest
from program_points import function_of

import madspace
from madspace import batch_float, batch_int

F = batch_float


def test_without_torch_the_import_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "madspace.torch", raising=False)
    with pytest.raises(ImportError, match=r"madspace\.torch needs torch, which is not installed"):
        from madspace.torch import FunctionModule  # noqa: F401


def test_there_is_nothing_else():
    import madspace.torch

    with pytest.raises(AttributeError, match="has no attribute 'Module'"):
        madspace.torch.Module  # noqa: B018


pytest_torch = pytest.mark.needs("torch")


def module_of(types, fill, context=None):
    from madspace.torch import FunctionModule

    return FunctionModule(function_of(types, fill), context)


def tensor(*numbers, grad=True):
    import torch

    return torch.tensor(numbers, dtype=torch.float64, requires_grad=grad)


@pytest_torch
def test_gradients_of_a_chain():
    import torch

    from madspace.torch import FunctionModule

    module = FunctionModule(madspace.TPropagatorMapping([0, 2, 1]).forward_function())
    torch.manual_seed(3)
    r = (0.1 + 0.8 * torch.rand(8, 6, dtype=torch.float64)).requires_grad_()
    energy, masses = tensor(300.0), [tensor(m) for m in (5.0, 1.0, 80.0, 2.0)]

    def scaled(r, energy, *masses):
        *momenta, det = module(*r, energy, *masses)
        return (*momenta[2:], det / 1e8)

    assert torch.autograd.gradcheck(scaled, (r, energy, *masses), rtol=1e-5, atol=1e-5)


@pytest_torch
def test_one_result_is_a_tensor_and_several_are_a_tuple():
    import torch

    x = tensor(1.0, 2.0)
    one = module_of([F], lambda b, x: [b.square(x)])(x)
    assert isinstance(one, torch.Tensor)
    assert one.requires_grad
    two = module_of([F], lambda b, x: [b.square(x), x])(x)
    assert isinstance(two, tuple)
    assert len(two) == 2


@pytest_torch
def test_no_gradients_are_kept_where_none_are_wanted():
    import torch

    module, x = module_of([F], lambda b, x: [b.square(x)]), tensor(1.0, 2.0)
    with torch.no_grad():
        assert not module(x).requires_grad
    assert not module(x.detach()).requires_grad


@pytest_torch
def test_only_some_inputs_and_results_have_gradients():
    module = module_of([F, F], lambda b, x, y: [b.mul(x, y), b.square(x), b.square(y)])
    x, y = tensor(1.0, 2.0), tensor(3.0, 4.0, grad=False)
    product, _, other = module(x, y)
    assert other.requires_grad  # torch cannot know
    product.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert y.grad is None


@pytest_torch
def test_one_tensor_twice_and_a_module_twice():
    module, x = module_of([F, F], lambda b, x, y: [b.mul(x, y)]), tensor(2.0, 3.0)
    first = module(x, x)
    second = module(first, x)
    second.sum().backward()
    np.testing.assert_allclose(x.grad, 3 * np.array([2.0, 3.0]) ** 2, rtol=1e-15)


@pytest_torch
def test_the_way_back_can_be_taken_twice():
    module, x = module_of([F], lambda b, x: [b.square(x)]), tensor(2.0, 3.0)
    y = module(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8.0, 12.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest_torch
def test_gradients_of_gradients_are_refused():
    import torch

    x = tensor(2.0)
    (gradient,) = torch.autograd.grad(module_of([F], lambda b, x: [b.square(x)])(x), x, create_graph=True)
    assert gradient.tolist() == [4.0]
    with pytest.raises(RuntimeError, match="gradients of gradients are not there"):
        (x + gradient).backward()


@pytest_torch
def test_inputs_that_change_before_the_way_back_are_noticed():
    import torch

    x = tensor(2.0, 3.0)
    z = x * 1.0
    y = module_of([F], lambda b, x: [b.square(x)])(z)
    with torch.no_grad():
        z.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest_torch
def test_a_result_that_is_an_input():
    x = tensor(2.0, 3.0)
    y, z = module_of([F], lambda b, x: [x, b.square(x)])(x)
    (5 * y + z).sum().backward()
    assert x.grad.tolist() == [9.0, 11.0]


@pytest_torch
def test_integers_have_no_gradients():
    import torch

    module = module_of([batch_int, F], lambda b, i, x: [b.add_int(i, 1), b.square(x)])
    x = tensor(2.0, 3.0)
    index, y = module(torch.tensor([1, 2], dtype=torch.int32), x)
    assert not index.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


@pytest_torch
def test_gradients_that_torch_expands():
    x = tensor(2.0, 3.0, 4.0)
    module_of([F], lambda b, x: [b.square(x)])(x).sum().backward()  # ones of stride 0
    assert x.grad.tolist() == [4.0, 6.0, 8.0]


@pytest_torch
def test_a_number_for_every_event():
    x, a = tensor(2.0, 3.0), tensor(5.0)
    module_of([F, F], lambda b, x, a: [b.mul(x, a)])(x, a).sum().backward()
    assert a.grad.tolist() == [5.0]


def with_globals(device="cpu"):
    """Return a function y = w.a x + b of two globals, and their context on a device."""
    builder = madspace.FunctionBuilder(madspace.NamedTypes([("x", F)]), madspace.NamedTypes([("y", F)]))
    a, b = builder.get_global("w.a", madspace.float, []), builder.get_global("b", madspace.float, [])
    builder.output(0, builder.add(builder.mul(a, builder.input(0)), b))
    context = madspace.Context(device)
    context.define_global("w.a", madspace.float, [], requires_grad=True).fill(3.0)
    context.define_global("b", madspace.float, []).fill(1.0)
    return builder.function(), context


@pytest_torch
def test_globals_are_parameters():
    import torch

    from madspace.torch import FunctionModule

    module = FunctionModule(*with_globals())
    assert set(module.global_params) == {"w:a", "b"}
    assert [x.requires_grad for x in (module.global_params["w:a"], module.global_params["b"])] == [True, False]
    x = tensor(1.0, 2.0, grad=False)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    y = module(x)
    assert y.tolist() == [4.0, 7.0]
    y.sum().backward()
    assert module.global_params["w:a"].grad.tolist() == [3.0]
    optimizer.step()
    np.testing.assert_allclose(module(x).detach(), [3.7, 6.4], rtol=1e-14)


@pytest_torch
def test_a_function_of_globals_alone():
    from madspace.torch import FunctionModule

    builder = madspace.FunctionBuilder(madspace.NamedTypes([]), madspace.NamedTypes([("y", madspace.single_float)]))
    builder.output(0, builder.square(builder.get_global("a", madspace.float, [])))
    context = madspace.Context()
    context.define_global("a", madspace.float, [], requires_grad=True).numpy()[...] = 3.0
    module = FunctionModule(builder.function(), context)
    y = module()
    assert y.tolist() == [9.0]
    y.sum().backward()
    assert module.global_params["a"].grad.tolist() == [6.0]


@pytest_torch
def test_parameters_that_are_the_globals_no_more():
    import torch

    from madspace.torch import FunctionModule

    function, context = with_globals()
    module = FunctionModule(function, context)
    message = r"global_params\['w:a'\]: expected the memory of the context's global"
    context.delete_global("w.a")
    context.define_global("w.a", madspace.float, [], requires_grad=True)
    with pytest.raises(ValueError, match=message):
        module(tensor(1.0))
    module = FunctionModule(function, context)
    module.global_params["w:a"].data = torch.ones(1, dtype=torch.float64)
    with pytest.raises(ValueError, match=message):
        module(tensor(1.0))


@pytest.mark.gpu
@pytest.mark.needs("torch", "nvrtc")
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match")
def test_globals_on_a_gpu_are_parameters(device, frozen):
    """An optimizer's step on torch's stream is seen by the next call, without a wait in between."""
    import torch

    from madspace.torch import FunctionModule

    module = FunctionModule(*with_globals("cuda"))
    weight = module.global_params["w:a"]
    assert [x.is_cuda for x in module.global_params.values()] == [True, True]
    weight.requires_grad_(not frozen)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                before = weight.detach().clone()
                optimizer.zero_grad()
                x.grad = None
                torch.cuda._sleep(2_000_000)
                y = module(x)
                y.sum().backward()
                optimizer.step()
                torch.testing.assert_close(y.detach(), before * x.detach() + 1)
                torch.testing.assert_close(x.grad, before.expand(2))
                assert (weight.grad is None) if frozen else weight.grad.tolist() == [3.0]
        torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(weight.detach().cpu(), torch.full([1], 3.0 if frozen else 1.2, dtype=torch.float64))


@pytest.mark.gpu
@pytest.mark.needs("torch")
def test_a_module_and_its_tensors_are_on_one_device(device):
    from madspace.torch import FunctionModule

    x = tensor(1.0, grad=False)
    with pytest.raises(madspace.DeviceMismatchError, match="expected a global on the CPU"):
        FunctionModule(*with_globals("cuda"))(x)
    module = FunctionModule(*with_globals())
    with pytest.raises(madspace.DeviceMismatchError, match="expected a CUDA tensor on cuda:0"):
        module(x.cuda())
    with pytest.raises(ValueError, match="global_params"):
        module.to("cuda")(x.cuda())


@pytest_torch
def test_a_step_without_a_derivative_raises_on_the_way_back():
    x = tensor(0.5, 2.0)
    y = module_of([F], lambda b, x: [b.cut_one(x, 0.0, 1.0)])(x)
    assert y.tolist() == [1.0, 0.0]
    with pytest.raises(madspace.UnsupportedOpError, match="cut_one: this operation has no derivative"):
        y.sum().backward()


@pytest_torch
def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match=r"argument 1: expected a torch tensor, got 1\.0"):
        module_of([F, F], lambda b, x, y: [b.mul(x, y)])(tensor(1.0), 1.0)


@pytest_torch
def test_float32_is_not_cast():
    import torch

    with pytest.raises(madspace.DTypeError, match="x0: expected dtype float64, got float32"):
        module_of([F], lambda b, x: [b.square(x)])(torch.ones(2, requires_grad=True))


@pytest_torch
def test_a_module_in_a_sequence():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 3, dtype=torch.float64), torch.nn.Flatten(0))
    model.append(module_of([F], lambda b, x: [b.square(x)]))
    model(torch.ones(2, 3, dtype=torch.float64)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
