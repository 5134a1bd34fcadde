"""A machine without a CUDA driver: the import is silent, and errors say what is missing."""

import pytest

pytestmark = pytest.mark.fake
REPORT = """
from madspace.errors import DriverNotFoundError
import madspace
try:
    madspace.Device(0)
except DriverNotFoundError as error:
    print(isinstance(error, OSError), error)
"""
no_driver = pytest.mark.needs("no_driver")


@no_driver
def test_the_import_is_silent(run_python):
    done = run_python("import madspace", driver=None)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_import_makes_no_driver_call_and_loads_no_framework(run_python):
    done = run_python("""
import os, sys
import fake_driver
fake = fake_driver.Fake(os.environ["MADSPACE_DRIVER_LIBRARY"])
import madspace
heavy = {"torch", "cupy", "jax", "numba", "cuda.core", "cuda.bindings.driver", "cuda.bindings.runtime"}
print(fake.n_calls(), sorted(heavy & set(sys.modules)))
""")
    assert done.stdout == "0 []\n", done.stderr


@no_driver
def test_nothing_is_available(run_python):
    done = run_python("import madspace; print(madspace.is_available(), madspace.device_count())", driver=None)
    assert done.stdout == "False 0\n", done.stderr


@no_driver
def test_the_error_says_what_is_missing(run_python):
    done = run_python(REPORT, driver=None)
    assert done.stdout.startswith("True CUDA driver: no CUDA device node (/dev/nvidiactl"), done.stdout + done.stderr
    assert "NumPy" in done.stdout


@no_driver
@pytest.mark.parametrize(
    "call",
    [
        "madspace.Stream()",
        "madspace.Event()",
        "madspace.MemoryPool()",
        "madspace.empty((3,), device='cuda')",
        "madspace.asarray([1.0], device='cuda')",
    ],
)
def test_every_device_call_says_it(run_python, call):
    done = run_python(
        f"""
import madspace
try:
    {call}
except madspace.DriverNotFoundError as error:
    print(str(error)[:12])
""",
        driver=None,
    )
    assert done.stdout == "CUDA driver:\n", done.stderr


@no_driver
def test_numpy_input_runs_on_the_cpu(run_python):
    done = run_python(
        """
import numpy, madspace
print(madspace.asarray(numpy.arange(3.0)).numpy())
""",
        driver=None,
    )
    assert done.stdout == "[0. 1. 2.]\n", done.stderr


def test_a_named_library_that_is_not_there_is_named(run_python):
    done = run_python(REPORT, env={"MADSPACE_DRIVER_LIBRARY": "/nowhere/libcuda.so.1"})
    assert "MADSPACE_DRIVER_LIBRARY='/nowhere/libcuda.so.1' cannot be loaded" in done.stdout, done.stderr


def test_a_named_library_of_another_name_is_refused(run_python):
    done = run_python(REPORT, env={"MADSPACE_DRIVER_LIBRARY": "libc.so.6"})
    assert "its soname differs" in done.stdout, done.stdout + done.stderr


def test_a_named_library_is_trusted(run_python):
    done = run_python("import madspace; print(madspace.is_available(), madspace.device_count())")
    assert done.stdout == "True 2\n", done.stderr


def test_asking_does_not_start_the_driver(run_python):
    done = run_python("""
import os, fake_driver, madspace
fake = fake_driver.Fake(os.environ["MADSPACE_DRIVER_LIBRARY"])
print(madspace.is_available(), fake.names())
""")
    assert done.stdout == "True []\n", done.stderr
