"""Build with ``pip install --no-build-isolation .``, in an environment that has madspace and Cython."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import madspace

setup(
    name="madspace-example-cython",
    version="1.0",
    ext_modules=cythonize(
        [Extension("madspace_example_cython", ["madspace_example_cython.pyx"], include_dirs=[madspace.get_include()])],
        language_level=3,
    ),
)
