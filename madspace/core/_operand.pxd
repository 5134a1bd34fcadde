from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.vector cimport vector

from madspace.core._facts cimport Facts
from madspace.core._uses cimport Work
from madspace.core.device cimport Device
from madspace.core.memory cimport Buffer
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM, Tensor


# An argument of an op while the op is being called: where its elements are, whoever owns them.
cdef struct Operand:
    char* data
    int32_t device_type          # DLPack codes: 1 CPU, 2 CUDA
    int32_t device_id
    uint8_t code
    uint8_t bits
    bint readonly
    int ndim
    int64_t shape[MAX_NDIM]
    int64_t strides[MAX_NDIM]    # in elements


# The same for who only compares: it holds while the array lives and `space` of look() is not used again.
cdef struct Shown:
    const void* data
    const int64_t* shape
    const int64_t* strides
    int ndim
    uint8_t code
    uint8_t bits


# The arguments of one call: they are described, put in order with the call's stream, and kept alive until its work is
# queued and ordered; the caller keeps the arrays until then, whose packages lend many of them (see _borrow). Usage:
# locate() with the first array, choose(), take() for each, then before(), the launch and after().
cdef class Intake:
    cdef int32_t device_type     # of the first array; every other one must agree
    cdef int32_t device_id
    cdef readonly Device device  # None on the CPU
    cdef readonly Stream stream  # None on the CPU
    cdef bint owns               # to be set before: nothing is borrowed, so reads_ has all inputs that were taken
    cdef object first_array_
    cdef Tensor first_           # that array, imported; None where it is lent
    cdef Operand first_lent_
    cdef Stream lender_          # behind which what is lent on a device was written; None where nothing is
    cdef void* lender_type_      # of the arrays that were found to be lent behind it
    cdef Facts lender_facts_     # of that type
    cdef list others_            # further such streams, of arrays that taking over would not put in order; else None
    cdef list reads_             # tensors with memory to be ordered
    cdef list writes_
    cdef tuple known_            # more of them, or None: inputs, then what is written
    cdef Py_ssize_t n_known_inputs_
    cdef Work work_              # made for the first array that needs it
    cdef int locate(self, object first, str name) except -1
    cdef int choose(self, object stream, object first) except -1
    # The stream on which the library of the first array works, as framework_stream() tells it; choose() came before.
    cdef Stream stream_of(self, object first)
    cdef int take(self, Operand* operand, object array, str name, bint write) except -1
    cdef bint look_at(self, Shown* shown, Operand* space, object array, bint write) except -1    # for look()
    cdef bint lent(self, Operand* operand, object array, bint write) except -1
    cdef int check_device(self, int32_t device_type, int32_t device_id, str name) except -1
    # take() of all arrays of a call that is known to be right: tensors or None, those that are written last.
    cdef void take_known(self, tuple arrays, Py_ssize_t n_inputs) noexcept
    cdef int before(self) except -1
    cdef int after(self) except -1
    cdef int come_behind(self, object tensors, Py_ssize_t first, Py_ssize_t end, bint write) except -1
    # error: the first one so far, None for none; returns that.
    cdef object give_back(self, Stream lender, object error)
    cdef object note(self, object tensors, Py_ssize_t first, Py_ssize_t end, bint write, object error)


# What take() would describe of an array on the call's device that nobody has to take over, and that may be written if
# it has to; False, and nothing noted, for all others. `space` is for those that have no description of their own.
cdef inline bint look(Intake intake, Shown* shown, Operand* space, object array, bint write) except -1:
    cdef Tensor own
    if type(array) is not Tensor:
        return intake.look_at(shown, space, array, write)
    own = <Tensor>array
    shown.data, shown.shape, shown.strides = own.data_, own.shape_, own.strides_
    shown.ndim, shown.code, shown.bits = own.ndim_, own.code_, own.bits_
    return (own.device_id_ == intake.device_id and own.device_type_ == intake.device_type
            and not (write and own.readonly_))


# What an array reaches over: [low, high), empty for one without elements.
cdef struct Range:
    char* low
    char* high


cdef inline bint meet(const Range* a, const Range* b) noexcept nogil:
    return a.low < b.high and b.low < a.high


# Whether two outputs, or an input and an output, share bytes. a and b are ranges of rows, `*_width` bytes each and
# `*_stride` bytes apart.
cdef bint rows_overlap(const char* a, int64_t a_rows, int64_t a_stride, int64_t a_width,
                       const char* b, int64_t b_rows, int64_t b_stride, int64_t b_width) noexcept nogil

# How errors tell of an argument.
cdef tuple shape_of(const Operand* x)
cdef tuple strides_told(const Operand* x)        # in elements
cdef str describe_dtype(const Operand* x)

cdef list listed(object arrays, str name)        # TypeError for what is no sequence

# Gives a result of an op the type of the array that it was computed from: `like` decides. consumer: framework_stream()
# of that array.
cdef object hand_over(Tensor result, object like, Stream consumer)

# The same for results that are parts of one buffer, without a Tensor of each: whether the type of `like` takes them,
# and how they are handed over, by their places in the descriptions and in the list, which has the buffer there.
cdef bint takes_parts(object like) except -1
cdef int hand_over_parts(Operand* results, const vector[int]& places, list arrays, object like,
                         Stream consumer) except -1

# A new array of the kind of `like`, the first one, from the allocator of its library, which knows what to do in a
# capture of its own; None where the library gives none, or works on another stream than the call's.
cdef object framework_array(Intake intake, object like, uint8_t code, uint8_t bits, int ndim, int64_t* shape)
