"""Layouts: how the bytes of a workspace are shared out."""
cimport cython

from madspace.core._numbers cimport whole_number

cdef enum:
    LARGEST_ALIGNMENT = 1 << 20
cdef size_t LARGEST_LAYOUT = <size_t>1 << 62


@cython.final
cdef class WorkspaceLayout:
    """The regions that an op needs in its workspace: their sizes, and where each one begins.

    Made once for a shape, without any memory; ``Workspace.carve`` deals the regions of a call.

    Attributes
    ----------
    nbytes : int
        Bytes that a workspace must have for all regions, gaps included.
    alignment : int
        Bytes that its address must be a multiple of: the largest alignment asked for; 1 without regions.

    Examples
    --------
    >>> layout = WorkspaceLayout()
    >>> layout.reserve(1000), layout.reserve(24, alignment=8)
    (0, 1)
    >>> layout.offset(1), layout.nbytes, layout.alignment
    (1000, 1024, 256)
    """

    def __cinit__(self):
        self.alignment = 1

    def reserve(self, nbytes, *, alignment=256):
        """Add a region behind the others.

        Parameters
        ----------
        nbytes : int
            Its size in bytes, 0 or more.
        alignment : int, optional
            Bytes that its address shall be a multiple of, a power of two up to 1 MiB.

        Returns
        -------
        int
            Number of the region, from 0.

        Raises
        ------
        ValueError
            For a negative size, or an alignment that is no such power of two.
        OverflowError
            When the regions exceed 2**62 bytes.
        """
        size, step = whole_number(nbytes, "nbytes"), whole_number(alignment, "alignment")
        if size < 0:
            raise ValueError(f"nbytes: expected 0 or more, got {size}")
        if not 0 < step <= LARGEST_ALIGNMENT:
            step = 0
        if size > LARGEST_LAYOUT:
            size = LARGEST_LAYOUT + 1
        return self.add(size, step)

    def offset(self, index):
        """Tell where a region begins, in bytes from the start of the workspace."""
        return self.offsets[self.number(index)]

    def size(self, index):
        """Tell the size of a region, in bytes."""
        return self.sizes[self.number(index)]

    def __len__(self):
        return self.sizes.size()

    def __repr__(self):
        return f"<WorkspaceLayout of {self.sizes.size()} regions in {self.nbytes} bytes, aligned to {self.alignment}>"

    cdef Py_ssize_t add(self, size_t nbytes, size_t alignment) except -1:
        cdef size_t offset
        if alignment == 0 or alignment & (alignment - 1) or alignment > LARGEST_ALIGNMENT:
            raise ValueError(f"alignment: expected a power of two from 1 to {LARGEST_ALIGNMENT}, got {alignment}")
        offset = (self.nbytes + alignment - 1) & ~(alignment - 1)
        if nbytes > LARGEST_LAYOUT or offset > LARGEST_LAYOUT - nbytes:
            raise OverflowError(f"nbytes: expected regions of at most 2**62 bytes, got {nbytes} more than {offset}")
        self.offsets.push_back(offset)
        self.sizes.push_back(nbytes)
        self.nbytes = offset + nbytes
        self.alignment = max(self.alignment, alignment)
        return <Py_ssize_t>self.sizes.size() - 1

    cdef Py_ssize_t number(self, object index) except -1:
        index = whole_number(index, "index")
        if not 0 <= index < <Py_ssize_t>self.sizes.size():
            raise IndexError(f"index: expected a region from 0 to {<Py_ssize_t>self.sizes.size() - 1}, got {index}")
        return index

    cdef int check_index(self, Py_ssize_t index) except -1:
        if index < 0 or <size_t>index >= self.sizes.size():
            self.number(index)
        return 0
