"""The C API: a table of functions for C, C++ and Cython extensions.

``madspace/madspace.h`` in ``madspace.get_include()`` documents it; from Cython it is ``cimport``ed from this package.
"""

from pathlib import Path

__all__ = ["get_cmake_dir", "get_pkgconfig_dir"]

_SHARE = Path(__file__).resolve().parents[1] / "share"


def get_cmake_dir() -> str:
    """Return the folder of the CMake package, for ``-Dmadspace_DIR=`` and ``find_package(madspace CONFIG)``.

    Returns
    -------
    str
    """
    return str(_SHARE / "cmake" / "madspace")


def get_pkgconfig_dir() -> str:
    """Return the folder of ``madspace.pc``, for ``PKG_CONFIG_PATH``.

    Returns
    -------
    str
    """
    return str(_SHARE / "pkgconfig")
