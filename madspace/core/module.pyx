"""Modules of compiled device code: the users', and those that come with the package."""
import _thread
import os

cimport cython
from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from cuda.bindings cimport cydriver
from cuda.bindings.cydriver cimport CUkernel, CUresult

from madspace.core cimport _driver as drv
from madspace.core._code_image cimport CodeImage
from madspace.core._leaks cimport remember
from madspace.core._teardown cimport is_closed, refuse
from madspace.core._uses cimport is_captured
from madspace.core._watch cimport LEAKS, watchers
from madspace.core.device cimport Device, get_device
from madspace.core.pool cimport own_pool
from madspace.core.stream cimport Stream, own_stream

from madspace.core._images import check_complete, find_image, read_image, shipped_images
from madspace.core.device import as_device
from madspace.errors import ClosedError, KernelImageError

cdef object loading = _thread.RLock()
cdef dict by_device = {}        # (stem, device id): Module
cdef dict by_file = {}          # file name: Module; images are shared by the devices that they fit
cdef dict loaded = {}           # file name: sha256


@cython.no_gc_clear
cdef class Module:
    """Compiled device code: a cubin, PTX or a fat binary.

    Parameters
    ----------
    image : bytes, bytearray, memoryview, str or os.PathLike
        The code itself, or the path of its file. PTX is compiled by the driver.
    name : str, optional
        What messages call the module; the path, or the number of bytes, if left out.

    Attributes
    ----------
    name : str
        What messages call it.

    Raises
    ------
    DriverError
        When the driver refuses the image; the message has its compiler's log.
    KernelImageError
        When the end of a cubin or fat binary is missing.
    OSError
        When the file cannot be read.
    DriverNotFoundError, ForkError
        As from ``Device``.

    Notes
    -----
    A module serves all devices that its code fits. Kernels keep it alive. Unloading it, by close() or when it is
    collected, is for when its kernels are done.
    """

    def __cinit__(self):
        self.closed_ = True     # until it is loaded
        self.ready_ = {}

    def __init__(self, image, *, str name=None):
        if self.image_ is not None:
            raise TypeError("Module: __init__ was called twice")
        if isinstance(image, (bytes, bytearray, memoryview)):
            image = bytes(image)
            self.name = f"<{len(image)} bytes>" if name is None else name
            self.load(image)
        else:
            if not isinstance(image, (str, os.PathLike)):
                raise TypeError(
                    f"image: expected bytes, bytearray, memoryview, str or os.PathLike, got {type(image).__name__}")
            self.name = os.fsdecode(image) if name is None else name
            with open(image, "rb") as file:
                self.load(file.read())
        if watchers() & LEAKS:
            remember(self)

    cdef int load(self, bytes image) except -1:
        cdef CUresult code
        if not image:
            raise ValueError(f"image: expected device code, got no bytes ({self.name})")
        check_complete(image, self.name)
        drv.init()
        self.image_ = CodeImage.__new__(CodeImage)
        code = self.image_.load(image)
        if code != cydriver.CUDA_SUCCESS:
            raise drv.error_of(code, "cuLibraryLoadData", self.told())
        self.closed_ = False
        return 0

    @property
    def closed(self):
        """Whether close() was called."""
        return self.closed_

    @property
    def kernel_names(self):
        """Names of the module's kernels as in the image (C++ names mangled), a sorted tuple of str."""
        cdef unsigned int i
        cdef unsigned int n = 0
        cdef const char* name = NULL
        cdef vector[CUkernel] kernels
        self.check_open()
        with nogil:
            drv.library_get_kernel_count(&n, self.image_.library)
        kernels.resize(n)
        names = []
        if n > 0:
            with nogil:
                drv.library_enumerate_kernels(kernels.data(), n, self.image_.library)
        for i in range(n):
            with nogil:
                drv.kernel_get_name(&name, kernels[i])
            names.append(name.decode())
        return tuple(sorted(names))

    def get(self, str name not None):
        """Look up a kernel; ``module[name]`` does the same.

        Parameters
        ----------
        name : str
            As in the image: declare kernels ``extern "C"`` to keep their names.

        Returns
        -------
        Kernel

        Raises
        ------
        KernelImageError
            When there is none of that name; lists what there is.
        ClosedError
            When the module is closed.
        """
        from madspace.core.kernel import make_kernel

        cdef CUkernel handle
        cdef bytes encoded = name.encode(errors="replace")
        cdef const char* text = encoded
        cdef int found = 0
        self.check_open()
        if "\0" not in name:        # which the driver would take for the end
            with nogil:
                found = drv.library_get_kernel(&handle, self.image_.library, text)
        if not found:
            there = ", ".join(self.kernel_names) or "none"
            raise KernelImageError(f"{self.name}: no kernel named {name!r}; there are: {there}")
        return make_kernel(self, name, <uintptr_t>handle)

    def __getitem__(self, name):
        return self.get(name)

    def close(self):
        """Unload the code; idempotent. Its kernels must be done, and cannot be launched any more.

        Graphs that have some of them can: the code stays until they are gone.

        Raises
        ------
        ValueError
            For a module of madspace's own kernels, which everybody shares.
        """
        cdef CUresult code
        if self.closed_:
            return
        if self.shared_:
            raise ValueError(f"close: {self.name} is one of madspace's own modules and stays open")
        self.closed_ = True
        code = self.image_.drop()
        if code != cydriver.CUDA_SUCCESS:
            drv.raise_code(code, "cuLibraryUnload")

    def __dealloc__(self):
        if not self.closed_:
            self.closed_ = True
            drv.report(self.image_.drop(), "cuLibraryUnload")

    def __enter__(self):
        self.check_open()
        return self

    def __exit__(self, *exc_info):
        if not self.shared_:        # the shipped ones stay open
            self.close()

    def __repr__(self):
        return f"<Module {self.name}{', closed' if self.closed_ else ''}>"

    cdef str told(self):
        log = (<bytes>self.image_.log).decode(errors="replace").strip()
        return f"{self.name}: {log}" if log else self.name

    cdef int check_open(self) except -1:
        if self.closed_:
            raise ClosedError(f"module: expected an open module, got {self!r}")
        return 0


# ---- the kernels that come with the package ----

cdef Module shipped_module(str stem, Device device, Stream stream=None):
    key = (stem, device.id)
    cdef Module module = by_device.get(key)
    if module is None:
        if stream is not None and is_captured(stream):
            raise drv.error_of(
                cydriver.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuLibraryLoadData",
                f"the kernels of {stem} are not loaded on device {device.id} yet: call madspace.preload() before the "
                "capture")
        image = find_image(stem, device.compute_capability)
        # Before the lock: in a forked child nobody may be left to release it.
        if is_closed():
            refuse("cuLibraryLoadData")
        with loading:
            module = by_file.get(image["file"])
            if module is None:
                module = load_shipped(image)
            by_device[key] = module
    return module


cdef Module load_shipped(dict image):
    cdef Module module = Module.__new__(Module)
    module.name = image["file"]
    module.load(read_image(image))
    module.shared_ = True
    loaded[module.name] = image["sha256"]
    return by_file.setdefault(module.name, module)      # what the collector ran may have loaded it meanwhile


def loaded_images():
    """Tell which of the shipped kernel images were loaded by this process.

    Returns
    -------
    dict
        File name to sha256, as in the manifest.
    """
    return dict(loaded)


def preload(device=None):
    """Load everything that would be loaded at first use: kernels, the device's own stream and pool.

    Parameters
    ----------
    device : Device, int or str, optional
        The device; 0 if left out.

    Returns
    -------
    int
        Number of kernels. Those without an image for the device are left out.

    Raises
    ------
    KernelImageError
        When no images are installed, or their files are damaged.
    DriverNotFoundError, DriverError, ForkError
        As from ``Device``.

    Notes
    -----
    Call it before another library captures a stream: loading is not allowed in a capture.
    """
    cdef Device where = get_device(0) if device is None else as_device(device)
    cdef Module module
    cdef int n = 0
    own_stream(where)
    own_pool(where)
    for stem in sorted({image["stem"] for image in shipped_images()}):
        try:
            image = find_image(stem, where.compute_capability)
        except KernelImageError:
            continue
        module = shipped_module(stem, where)
        for name in image["kernels"]:
            module.get(name).load(where)
            n += 1
    return n
