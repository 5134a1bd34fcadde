from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from madspace.core._operand cimport Operand
from madspace.core.device cimport Device
from madspace.core.kernel cimport Kernel
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM


cdef extern from "phasespace/program_args.h" namespace "madspace" nogil:
    enum ProgramLimits:
        kStoreOp
        kMaxProgramValues
    enum ProgramSection:
        kConstants
        kInputs
        kIntInputs
        kFourInputs
        kOutputs
        kIntOutputs
        kFourOutputs
        kOnceOutputs
        kOnceIntOutputs
        kDraws
        kProgramSections
    cdef struct ProgramRange:
        unsigned int at, n
    cdef struct PhiloxKeys:
        pass
    PhiloxKeys philox_keys(unsigned long long seed)
    cdef struct ProgramHead:
        int n
        unsigned int n_steps
        unsigned long long offset
        PhiloxKeys keys
        ProgramRange section[kProgramSections]
    int kMostEvents
    int kColumnWords
    int kFourWords
    int kSmallProgram
    int kLargeProgram
    enum:
        kSmallWords "(madspace::kSmallProgram / 8)"


# An element, or four adjacent ones, of an operand; or a pair of random numbers.
cdef struct Column:
    int operand
    int n_index
    int64_t index[MAX_NDIM]
    uint64_t rows


cdef enum:
    SMALL_BATCH = 65536          # below it small blocks spread the events over all multiprocessors
    MAX_BATCH = 68719476704      # (2^31 - 1) * 32: the largest grid, far below any overflow in bytes

# Threads of a block, and their shared memory.
cdef struct Launcher:
    int block
    unsigned int shared


# A program as a kernel reads it, but for addresses, strides and the number of events.
cdef cppclass LaidOut:
    ProgramHead head
    vector[uint32_t] code                # rows are numbers, not yet places
    vector[char] is_row
    vector[uint64_t] constants
    vector[Column] columns[kProgramSections]
    size_t nbytes


cdef class Layout:
    cdef LaidOut it
    cdef int n_rows
    cdef bint chains_only
    cdef int add_code(self, code, constants) except -1
    cdef void add_word(self, uint32_t word, bint is_row)


# Returns how many events one launch may take.
cdef int64_t most_events(const LaidOut* layout, const Operand* operands) noexcept nogil

# Fills in what the kernel gets for n events from `first` on; operands without an address are numbers, whose bits are
# shape[0].
cdef void lay_out(LaidOut* layout, char* args, Operand* operands, int64_t first, int64_t n, uint64_t seed,
                  uint64_t offset, int block) noexcept nogil


# How a program is launched on a device.
cdef class OnDevice:
    cdef Layout layout
    cdef Kernel kernel
    cdef Launcher large, small


# A program and how it is run on each device: fused where there is a kernel, or else interpreted.
cdef class Plan:
    cdef object program
    cdef list output_shared
    cdef list places
    cdef tuple drawn
    cdef str kernels
    cdef dict on_devices                 # device id -> OnDevice
    # stream: where it is to run; CaptureError where that is captured and the kernel is not loaded.
    cdef OnDevice on_device(self, Device device, Stream stream)
    cdef OnDevice fused(self, Device device, Stream stream)
    cdef OnDevice interpreted(self, Device device, Stream stream)
