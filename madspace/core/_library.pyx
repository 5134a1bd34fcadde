"""Find the driver library, and say what is missing where there is none."""
import os

from posix.dlfcn cimport RTLD_GLOBAL, RTLD_NOW, dlerror, dlopen

from madspace.core._teardown cimport CLOSED, FORKED, state

from madspace.errors import DriverNotFoundError


cdef extern from "<dlfcn.h>" nogil:
    int RTLD_NOLOAD
    int RTLD_DI_LINKMAP
    int dlinfo(void* handle, int request, void* info)

cdef extern from "<link.h>" nogil:
    cdef struct link_map:
        const char* l_name

# What the driver's library is known as to the dynamic linker, and hence to everything else in the process.
cdef str SONAME = "libcuda.so.1"
cdef str VARIABLE = "MADSPACE_DRIVER_LIBRARY"
# Desktop and server drivers, WSL, Tegra.
cdef tuple DEVICE_NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu")

cdef void* loaded = NULL


cdef str find():
    """Load the library; what is missing and what to do about it, None where nothing is."""
    global loaded
    if loaded != NULL:
        return None
    cdef str path = os.environ.get(VARIABLE) or SONAME
    cdef bint named = path is not SONAME
    cdef bytes encoded = os.fsencode(path)
    cdef const char* text = encoded
    cdef const char* soname = b"libcuda.so.1"
    cdef const char* reason
    cdef void* handle
    cdef void* answering
    if not named and not any(map(os.path.exists, DEVICE_NODES)):
        # The library may be there all the same (a container image, a build machine).
        return (
            f"no CUDA device node ({', '.join(DEVICE_NODES)}): this machine has no NVIDIA GPU, its driver is not "
            "loaded, or the container was started without GPUs"
        )
    with nogil:
        # Global, since whoever loads it later by the same name must get this one.
        handle = dlopen(text, RTLD_NOW | RTLD_GLOBAL)
        answering = dlopen(soname, RTLD_NOW | RTLD_NOLOAD) if handle != NULL else NULL
    if handle == NULL:
        reason = dlerror()
        told = reason.decode(errors="replace") if reason != NULL else "no reason given"
        if named:
            return f"{VARIABLE}={path!r} cannot be loaded: {told}"
        return (
            f"{SONAME} cannot be loaded: {told}; install the NVIDIA driver (580 or newer), or name its library in "
            f"{VARIABLE}"
        )
    if answering != handle:
        return (
            f"{VARIABLE}={path!r} does not answer to the name {SONAME} in this process: its soname differs, or another "
            f"{SONAME} was loaded first"
        )
    loaded = handle
    return None


cdef int load_library() except -1:
    cdef str missing = find()
    if missing is not None:
        raise DriverNotFoundError(
            f"CUDA driver: {missing}; what takes NumPy arrays runs on the CPU without one, if no device and no stream "
            "is named")
    return 0


def driver_library():
    """Find the driver library, loading it where it was not, and tell its path and what is wrong with it.

    Returns
    -------
    path : str or None
        Of the file that the linker found; None where there is none.
    problem : str or None
        What is missing and what to do about it; None where nothing is.
    """
    cdef str missing = find()
    cdef link_map* entry = NULL
    if missing is not None:
        return None, missing
    if dlinfo(loaded, RTLD_DI_LINKMAP, &entry) != 0:
        return None, None
    return os.fsdecode(<bytes>entry.l_name), None


def is_available():
    """Tell whether device calls have a chance, without starting the driver.

    Returns
    -------
    bool
        True where the driver library loads and a device node exists. The library named by the environment variable
        ``MADSPACE_DRIVER_LIBRARY`` is trusted: no node is asked for. False in a child forked after its parent had
        started the driver, and while the interpreter exits.

    Notes
    -----
    The driver is not initialised, so a process may ask and fork afterwards. The full answer, with the reason, comes
    from ``Device(0)``.

    Examples
    --------
    >>> import madspace
    >>> madspace.is_available() in (True, False)
    True
    """
    if state() == CLOSED or state() == FORKED:
        return False
    if find() is not None:
        return False
    # The driver shows no device to a process that hides them all.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = visible is not None and visible.strip() in ("", "-1")
    return not hidden or bool(os.environ.get(VARIABLE))
