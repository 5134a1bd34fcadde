"""Contexts: named arrays."""

import numpy as np
import pytest

import madspace
from madspace import Context


def test_globals_are_zeros_with_a_leading_axis():
    context = Context()
    tensor = context.define_global("a", madspace.float, [2, 3], True)
    assert (tensor.shape, tensor.dtype) == ((1, 2, 3), np.float64)
    assert not tensor.numpy().any()
    context.define_global("i", madspace.int, [])
    assert context.get_global("i").dtype == np.int32
    assert context.global_names() == ["a", "i"]
    assert context.global_exists("a")
    assert not context.global_exists("b")
    assert [context.global_requires_grad(name) for name in "ai"] == [True, False]
    context.delete_global("a")
    assert context.global_names() == ["i"]


def test_what_is_wrong_with_globals():
    context = Context(2)
    context.define_global("a", madspace.float, [])
    with pytest.raises(ValueError, match="expected a new global, got 'a' again"):
        context.define_global("a", madspace.float, [])
    with pytest.raises(madspace.DTypeError, match="expected float or int"):
        context.define_global("b", madspace.batch_sizes, [])
    for use in (context.get_global, context.delete_global, context.global_requires_grad):
        with pytest.raises(ValueError, match="expected a global of the context, got 'z'"):
            use("z")


def test_globals_in_files(tmp_path):
    context = Context()
    context.define_global("net.a", madspace.float, [2], True).numpy()[...] = [[1.0, 2.0]]
    context.define_global("i", madspace.int, []).numpy()[...] = 5
    context.save_globals(tmp_path / "new")
    other = Context()
    other.load_globals(tmp_path / "new")
    assert other.global_names() == ["i", "net.a"]
    assert other.get_global("net.a").numpy().tolist() == [[1.0, 2.0]]
    assert other.get_global("i").numpy().tolist() == [5]
    assert not other.global_requires_grad("net.a")


@pytest.mark.parametrize(
    ("array", "error"), [(np.zeros((1, 2), np.float32), madspace.DTypeError), (np.zeros(2), madspace.ShapeError)]
)
def test_files_that_are_no_globals(array, error, tmp_path):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(error, match=r"a\.npy: expected"):
        Context().load_globals(tmp_path)


def test_copying_what_both_have():
    one, two = Context(), Context()
    for name, context in (("a", one), ("b", one), ("b", two), ("c", two)):
        context.define_global(name, madspace.float, []).numpy()[...] = 1.0 if context is one else 2.0
    one.copy_globals_from(two)
    assert [one.get_global(name).numpy().tolist() for name in "ab"] == [[1.0], [2.0]]
    assert not one.global_exists("c")


def test_where_a_context_is():
    assert Context().device() == Context("cpu").device() == "cpu"
    assert madspace.default_context() is madspace.default_context()
    with pytest.raises(ValueError, match="device: expected 'cpu', 'cuda' or 'cuda:<number>', got 'gpu'"):
        Context("gpu")


def test_globals_on_a_device(device, tmp_path):
    context, home = Context("cuda"), Context()
    assert context.device() is Context(device).device() is device
    for each in (context, home):
        each.define_global("a", madspace.float, [2])
        each.define_global("i", madspace.int, [])
    tensor = context.get_global("a")
    assert tensor is context.get_global("a")
    assert (tensor.device, tensor.shape) == (device, (1, 2))
    assert tensor.numpy().tolist() == [[0.0, 0.0]]
    tensor.copy_from(np.array([[1.0, 2.0]]))
    context.save_globals(tmp_path / "new")
    home.copy_globals_from(context)
    assert home.get_global("a").numpy().tolist() == [[1.0, 2.0]]
    home.get_global("a").numpy()[...] = 5.0
    context.copy_globals_from(home)
    assert tensor.numpy().tolist() == [[5.0, 5.0]]
    other = Context(device)
    other.load_globals(tmp_path / "new")
    assert other.get_global("a").numpy().tolist() == [[1.0, 2.0]]
    assert other.get_global("i").device is device
    other.copy_globals_from(context)
    assert other.get_global("a").numpy().tolist() == [[5.0, 5.0]]


@pytest.mark.multi_gpu
def test_copying_from_another_device(device, other_device):
    here, there = Context(device), Context(other_device)
    for context in (here, there):
        context.define_global("a", madspace.float, [])
    there.get_global("a").fill(3.0)
    here.copy_globals_from(there)
    assert here.get_global("a").numpy().tolist() == [3.0]


def test_copying_arrays_that_differ():
    one, two = Context(), Context()
    one.define_global("a", madspace.float, [2])
    two.define_global("a", madspace.float, [3])
    with pytest.raises(madspace.ShapeError):
        one.copy_globals_from(two)


def test_matrix_elements_are_missing_and_say_so():
    with pytest.raises(madspace.UnsupportedOpError, match="matrix elements are not part"):
        Context().load_matrix_element("api.so", "card.dat")
    with pytest.raises(madspace.UnsupportedOpError, match="matrix elements are not part"):
        Context().matrix_element(0)
