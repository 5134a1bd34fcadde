"""One call of a per-event kernel: checks, outputs, one launch. The part of a mapping that has to cost microseconds."""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA
from madspace.core._dtypes cimport CODE_FLOAT
from madspace.core._operand cimport Intake, Operand, describe_dtype, listed, shape_of
from madspace.core.device cimport Device
from madspace.core.kernel cimport Kernel
from madspace.core.module cimport shipped_module
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor
from madspace.cpu._lanes cimport HostFunction, host_function, run_events
from madspace.phasespace._outputs cimport Kind, Outputs, launch

from madspace.errors import DTypeError, ShapeError


cdef enum:
    MAX_OPERANDS = 64            # inputs and outputs together
    LARGE_BLOCK = 128            # 32 to 256 measured: within 3 % of each other at 10^5 events and above
    SMALL_BLOCK = 64
    SMALL_BATCH = 65536          # below it small blocks spread the events over all multiprocessors
    MAX_BATCH = 137438953408     # (2^31 - 1) * SMALL_BLOCK: the largest grid, far below any overflow in bytes
    ROW_ALIGNMENT = 16           # bytes: momenta are stored so many at a time
    N_ARGS = 2 + 2 * MAX_OPERANDS
    N_KNOWN = 32

cdef tuple NONE_GIVEN = ()

# A call that was checked: its arrays, by what no other Tensor of the process has, and what is passed to the kernel.
# Type, shape and address of a Tensor never change.
cdef struct Known:
    uint64_t serials[MAX_OPERANDS]
    int64_t args[N_ARGS]
    int64_t n


cdef class EventOp:
    """A per-event kernel, on the GPU and on the CPU.

    Parameters
    ----------
    stem : str
        The shipped module that holds the GPU kernel.
    kernel : str
        The kernel's name, the same on the GPU and on the CPU.
    input_names : sequence of str
        Inputs in the order of the kernel's arguments, each one float64 per event.
    output_names : sequence of str
        Outputs: four float64 per event each, the last one (det) one.
    constant : float
        Passed to the kernel as it is.
    """

    cdef str stem_
    cdef readonly str kernel
    cdef readonly tuple input_names
    cdef Outputs outputs_
    cdef int n_inputs_
    cdef int n_outputs_
    cdef double constant_
    cdef HostFunction host_
    cdef dict kernels_           # device id -> Kernel
    cdef Known* known_           # N_KNOWN calls on Tensors of a device, all of whose outputs were given

    # Not __init__: there is no such object without them.
    def __cinit__(self, str stem, str kernel, input_names, output_names, double constant):
        cdef Kind kind
        cdef int i
        self.stem_ = stem
        self.kernel = kernel
        self.input_names = tuple(input_names)
        self.outputs_ = Outputs(output_names, self.input_names, ROW_ALIGNMENT)
        self.n_inputs_ = len(self.input_names)
        self.n_outputs_ = len(self.outputs_.names)
        if self.n_inputs_ + self.n_outputs_ > MAX_OPERANDS:
            raise ValueError(f"kernel: expected at most {MAX_OPERANDS} arrays, got {self.n_inputs_ + self.n_outputs_}")
        for i in range(self.n_outputs_):
            kind.code, kind.shared, kind.whole = CODE_FLOAT, False, False
            kind.ndim = 0 if i == self.n_outputs_ - 1 else 1
            kind.shape[0] = 4
            kind.count = 4 if kind.ndim else 1
            self.outputs_.add(&kind)
        self.constant_ = constant
        self.host_ = host_function(kernel)
        self.kernels_ = {}
        self.known_ = NULL

    def __dealloc__(self):
        free(self.known_)

    @property
    def output_names(self):
        return self.outputs_.names

    @property
    def isa(self):
        """Instruction set of the host kernel."""
        return self.host_.isa

    def load(self, Device device not None, Stream stream not None):
        """Load the kernel, so that a call raises nothing that this does not."""
        self.kernel_for(device, stream)

    def __call__(self, inputs, conditions, out, stream):
        """Run the kernel on one batch; see Mapping.map_forward for the arguments. Returns the outputs as a list."""
        cdef Operand operands[MAX_OPERANDS]
        # EventArgs of cuda_src/include/madspace/event_args.h.
        cdef int64_t args[N_ARGS]
        cdef int n_in = self.n_inputs_
        cdef int i
        cdef int64_t n
        cdef Kernel kernel = None
        cdef Known* known = NULL
        cdef Intake intake = Intake.__new__(Intake)
        cdef list arrays = listed(inputs, "inputs")
        cdef list results = None
        if conditions is not NONE_GIVEN:
            arrays += listed(conditions, "conditions")
        if len(arrays) != n_in:
            raise ShapeError(
                f"inputs: expected {n_in} arrays ({', '.join(self.input_names)}), conditions counted in, "
                f"got {len(arrays)}"
            )
        if out is not None:
            results = listed(out, "out")
        first = arrays[0]
        intake.locate(first, self.input_names[0])
        if intake.device_type != DEVICE_CPU and intake.device_type != DEVICE_CUDA:
            raise TypeError(f"{self.input_names[0]}: expected an array on a CPU or a CUDA device, "
                            f"got DLPack device type {intake.device_type}")
        intake.choose(stream, first)
        if intake.device is not None:
            known = self.place_of(arrays, results)
        if known != NULL and is_this(known, arrays, results):
            n = known.n
            memcpy(args, known.args, sizeof(args))      # before another thread's call is there
            intake.reads_, intake.writes_ = arrays, results
            if n > 0:
                self.run(self.kernel_for(intake.device, intake.stream), intake, n, args)
            return results
        for i in range(n_in):
            intake.take(&operands[i], arrays[i], self.input_names[i], False)
        n = self.batch(operands)
        results = self.outputs_.check(intake, operands, n, results)
        if n > 0 and intake.device is not None:
            kernel = self.kernel_for(intake.device, intake.stream)      # before anything is made
        missing = self.outputs_.make(intake, operands, n, results, first, None)
        self.lay_out(operands, args, n)
        if n > 0:
            self.run(kernel, intake, n, args)
        if known != NULL:
            remember(known, arrays, results, args, n)
        self.outputs_.give(intake, results, missing, first, False)
        return results

    cdef int run(self, Kernel kernel, Intake intake, int64_t n, int64_t* args) except -1:
        cdef int pushed
        if intake.device is None:
            with nogil:
                run_events(self.host_.run_, args, n)
            return 0
        pushed = intake.device.push()
        try:
            intake.before()
            launch(kernel, intake.stream, n, SMALL_BLOCK if n < SMALL_BATCH else LARGE_BLOCK, 0, args)
            intake.after()
        finally:
            intake.device.pop(pushed)
        return 0

    cdef Known* place_of(self, list arrays, list results) except? NULL:
        """Where a call is found if it is known; NULL where it cannot be."""
        if results is None or len(results) != self.n_outputs_:
            return NULL
        for array in arrays:
            if type(array) is not Tensor:
                return NULL
        for array in results:
            if type(array) is not Tensor:
                return NULL
        if self.known_ == NULL:
            self.known_ = <Known*>calloc(N_KNOWN, sizeof(Known))
            if self.known_ == NULL:
                raise MemoryError("no host memory left for the calls of a mapping")
        return &self.known_[(<Tensor>results[self.n_outputs_ - 1]).serial_ % N_KNOWN]

    cdef int64_t batch(self, Operand* operands) except -1:
        """Check the inputs and return the number of events."""
        cdef int64_t n = 1
        cdef int i
        cdef Operand* x
        for i in range(self.n_inputs_):
            x = &operands[i]
            if x.code != CODE_FLOAT or x.bits != 64:
                raise DTypeError(f"{self.input_names[i]}: expected dtype float64, got {describe_dtype(x)}")
            if x.ndim != 1:
                raise ShapeError(f"{self.input_names[i]}: expected shape (batch,), got {shape_of(x)}")
            if <uintptr_t>x.data % 8 != 0:
                raise ShapeError(f"{self.input_names[i]}: expected data aligned to 8 bytes, got {<uintptr_t>x.data:#x}")
            if x.shape[0] != 1:
                if n != 1 and x.shape[0] != n:
                    raise ShapeError(f"{self.input_names[i]}: expected shape ({n},) or (1,), got {shape_of(x)}")
                n = x.shape[0]
        if n > MAX_BATCH:
            raise ShapeError(f"{self.input_names[0]}: expected at most {MAX_BATCH} events in a batch, got {n}")
        for i in range(self.n_inputs_):
            # An array of length 1 stands for every event.
            if operands[i].shape[0] == 1:
                operands[i].strides[0] = 0
        return n

    cdef void lay_out(self, Operand* operands, int64_t* args, int64_t n) noexcept:
        cdef int n_in = self.n_inputs_, n_out = self.n_outputs_
        cdef int i
        args[0] = n
        for i in range(n_in):
            args[1 + i] = <int64_t>operands[i].data
            args[1 + n_in + i] = operands[i].strides[0]
        for i in range(n_out):
            args[1 + 2 * n_in + i] = <int64_t>operands[n_in + i].data
            args[1 + 2 * n_in + n_out + i] = operands[n_in + i].strides[0]
        memcpy(&args[1 + 2 * (n_in + n_out)], &self.constant_, sizeof(double))

    cdef Kernel kernel_for(self, Device device, Stream stream):
        cdef Kernel kernel = self.kernels_.get(device.id)
        if kernel is None:
            kernel = shipped_module(self.stem_, device, stream).get(self.kernel)
            kernel.function_on(device, stream)
            self.kernels_[device.id] = kernel
        return kernel


cdef bint is_this(const Known* known, list arrays, list results) noexcept:
    cdef int i = 0
    for array in arrays:
        if (<Tensor>array).serial_ != known.serials[i]:
            return False
        i += 1
    for array in results:
        if (<Tensor>array).serial_ != known.serials[i]:
            return False
        i += 1
    return True


cdef void remember(Known* known, list arrays, list results, const int64_t* args, int64_t n) noexcept:
    cdef int i = 0
    for array in arrays + results:
        known.serials[i] = (<Tensor>array).serial_
        i += 1
    memcpy(known.args, args, sizeof(known.args))
    known.n = n
