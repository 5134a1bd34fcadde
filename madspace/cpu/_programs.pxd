# Of the executor of programs; the paths are those from any package of madspace.
from libc.stdint cimport int64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector


cdef extern from "../cpu/program.h" namespace "madspace" nogil:
    ctypedef struct ProgramStep:
        int op
        int n_in
        int n_out
        int is_in_place
        long long first
    ctypedef struct ProgramColumn:
        char* data
        long long stride
        int kind
        int reg[4]
    ctypedef struct ProgramDraw:
        unsigned long long k
        int reg[2]
    ctypedef struct Program:
        const int* registers
        const ProgramStep* steps
        const double* constants
        const ProgramColumn* inputs
        const ProgramColumn* outputs
        const ProgramDraw* draws
        long long n_draws
        unsigned long long seed
        unsigned long long offset
        long long n_steps
        long long n_inputs
        long long n_outputs
        int n_constants
        int n_registers
        int n_scratch
        int n_pointers
        atomic[int]* out_of_memory
    int kFloat64
    int kInt32
    int kFourFloat64
    int kScratchPerValue
    int kScratchBase


cdef extern from "../cpu/op_catalog.h" namespace "madspace" nogil:
    ctypedef bint (*Accepts)(int n_in, int n_out) noexcept nogil
    cdef struct OpInfo:
        const char* name
        int n_in
        int n_out
        Accepts accepts
        bint is_adjoint
    const OpInfo* kOpCatalog
    int kOpCount


# The instructions of a program, copied and checked. Usage: set_up(), then for each register that an input fills
# written[register] = 1, then read().
cdef class _Code:
    cdef vector[int] words
    cdef vector[ProgramStep] steps
    cdef vector[char] written
    cdef vector[double] constants
    cdef int n_registers, n_scratch, n_pointers
    cdef int set_up(self, object constants, object n_registers) except -1
    cdef int read(self, object code) except -1
    cdef int64_t read_instruction(self, int64_t at, int64_t size) except -1
    cdef bint arity_fits(self, const OpInfo* info, int n_in, int n_out) noexcept
