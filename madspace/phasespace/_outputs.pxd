from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from madspace.core._operand cimport Intake, Operand, Range
from madspace.core.kernel cimport Kernel
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM


# An array that goes in or comes out.
cdef struct Kind:
    int code                     # DLPack's: an int32 or a float64
    int ndim                     # of an event
    int64_t shape[MAX_NDIM]
    int64_t count                # elements of an event
    bint shared                  # by all events
    bint whole                   # one for each event, not one for all


# Where an array has its bytes: rows of equal width at equal distances, an event each.
cdef struct Rows:
    Range reach
    const char* data
    int64_t n, stride, width


cdef bint has_type(const Kind* kind, const Operand* x) noexcept
cdef bint has_shape(const Kind* kind, const Operand* x) noexcept         # behind the axis of the batch
cdef str dtype_name(const Kind* kind)
cdef str wanted_shape(const Kind* kind, object batch)


# The results of an op, those that are given and those that are made.
cdef class Outputs:
    cdef readonly tuple names
    cdef tuple labels_                   # of the entries of out=, for messages
    cdef tuple input_names_
    cdef int n_inputs_
    cdef vector[Kind] kinds_
    cdef int64_t row_alignment_          # bytes, of events with axes on a GPU
    cdef int add(self, const Kind* kind) except -1
    # Checks the given arrays and describes them behind the inputs in `operands`; the list has None for what is to be
    # made. Inputs without an address have no memory.
    cdef list check(self, Intake intake, Operand* operands, int64_t n, object out)
    cdef int check_one(self, int i, Operand* x, int64_t length, bint on_gpu) except -1
    # Makes what is missing in the list and adds which those are to `missing`. maker(shape, is_float, device_id), if it
    # is given, makes arrays on devices; first: the first input, whose library makes them in a capture of its own, and
    # of whose type they become, if they do not stay Tensors: those on a device are a Buffer in the list until give().
    cdef int make(self, Intake intake, Operand* operands, int64_t n, list results, vector[int]& missing, object first,
                  object maker, bint as_tensors) except -1
    cdef int make_on_host(self, Operand* operands, int64_t n, list results, vector[int]& missing) except -1
    cdef int make_in_slab(self, Intake intake, Operand* operands, int64_t n, list results, vector[int]& missing,
                          bint as_parts) except -1
    cdef bint make_elsewhere(self, Intake intake, Operand* operands, int64_t n, list results, vector[int]& missing,
                             object first, object maker) except -1
    cdef Operand* compact(self, Operand* operands, int i, int64_t n) noexcept
    # Gives what was made the type of `first`, or makes Tensors of it: after the launch, since a framework that takes a
    # result over orders itself behind what is queued by then.
    cdef int give(self, Intake intake, Operand* operands, list results, vector[int]& missing, object first,
                  bint as_tensors) except -1


# One launch for n events; the context is current.
cdef int launch(Kernel kernel, Stream stream, int64_t n, int block, unsigned int shared, void* args) except -1
