"""The tree of exceptions: what catches what, what survives pickling, what the messages say."""

import pickle

import pytest

from madspace import errors

PARENTS = {
    "DriverError": RuntimeError,
    "DriverNotFoundError": OSError,
    "OutOfMemoryError": MemoryError,
    "KernelFaultError": errors.DriverError,
    "CaptureError": errors.DriverError,
    "ForkError": RuntimeError,
    "ShapeError": ValueError,
    "DTypeError": TypeError,
    "DeviceMismatchError": ValueError,
    "StreamScopeError": RuntimeError,
    "WorkspaceError": ValueError,
    "ClosedError": ValueError,
    "CompileError": RuntimeError,
    "KernelImageError": LookupError,
    "UnsupportedOpError": NotImplementedError,
}
ARGUMENT_ERRORS = ["ShapeError", "DTypeError", "DeviceMismatchError", "WorkspaceError"]


def test_all_lists_every_class():
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes == set(errors.__all__)
    assert set(PARENTS) | {"MadspaceError", "MadspaceWarning"} == classes


@pytest.mark.parametrize(("name", "parent"), PARENTS.items())
def test_each_has_the_root_and_a_builtin_parent(name, parent):
    assert issubclass(getattr(errors, name), errors.MadspaceError)
    assert issubclass(getattr(errors, name), parent)


@pytest.mark.parametrize("name", ARGUMENT_ERRORS)
def test_argument_errors_are_runtime_errors_too(name):
    assert issubclass(getattr(errors, name), RuntimeError)


def test_warning_is_a_runtime_warning():
    assert issubclass(errors.MadspaceWarning, RuntimeWarning)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, "DriverError"),
        (2, "OutOfMemoryError"),
        (700, "KernelFaultError"),
        (719, "KernelFaultError"),
        (900, "CaptureError"),
        (908, "CaptureError"),
        (909, "DriverError"),
        (999, "DriverError"),
    ],
)
def test_code_decides_the_class(code, kind):
    error = errors.driver_error(code, "CUDA_ERROR_X", "some text", "cuSomething", "some detail")
    assert type(error) is getattr(errors, kind)
    assert (error.code, error.name, error.call) == (code, "CUDA_ERROR_X", "cuSomething")
    for part in ("cuSomething", "CUDA_ERROR_X", str(code), "some text", "some detail"):
        assert part in str(error)


@pytest.mark.parametrize(
    "kind", [errors.DriverError, errors.OutOfMemoryError, errors.KernelFaultError, errors.CaptureError]
)
def test_driver_errors_survive_pickling(kind):
    error = pickle.loads(pickle.dumps(kind("message", 7, "CUDA_ERROR_X", "cuSomething")))
    assert type(error) is kind
    assert (str(error), error.code, error.name, error.call) == ("message", 7, "CUDA_ERROR_X", "cuSomething")


@pytest.mark.parametrize("name", sorted(set(errors.__all__)))
def test_all_survive_pickling(name):
    error = pickle.loads(pickle.dumps(getattr(errors, name)("message")))
    assert str(error) == "message"
