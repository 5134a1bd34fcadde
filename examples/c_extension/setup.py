"""Build with ``pip install --no-build-isolation .``, in an environment that has madspace."""

from setuptools import Extension, setup

import madspace

setup(
    name="madspace-example-c",
    version="1.0",
    ext_modules=[Extension("madspace_example_c", ["madspace_example_c.c"], include_dirs=[madspace.get_include()])],
)
