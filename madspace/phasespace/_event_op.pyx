"""One call of a per-event kernel: checks, outputs, one launch. The part of a mapping that has to cost microseconds."""

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from madspace.core._operand cimport (
    Intake, Operand, Range, describe_dtype, framework_array, hand_over, listed, meet, rows_overlap, shape_of,
    strides_told,
)
from madspace.core.device cimport Device
from madspace.core.dlpack cimport framework_stream
from madspace.core.kernel cimport Kernel
from madspace.core.memory cimport Buffer, allocate
from madspace.core.module cimport shipped_module
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor, empty_host, make_tensor
from madspace.cpu._lanes cimport HostFunction, host_function, run_events

from madspace.errors import CaptureError, DTypeError, ShapeError


cdef enum:
    MAX_OPERANDS = 64            # inputs and outputs together
    CODE_FLOAT = 2
    DEVICE_CPU = 1
    DEVICE_CUDA = 2
    LARGE_BLOCK = 128            # 32 to 256 measured: within 3 % of each other at 10^5 events and above
    SMALL_BLOCK = 64
    SMALL_BATCH = 65536          # below it small blocks spread the events over all multiprocessors
    MAX_BATCH = 137438953408     # (2^31 - 1) * SMALL_BLOCK: the largest grid, far below any overflow in bytes
    OUTPUT_ALIGNMENT = 256       # of each array in a slab of results: no two share a memory transaction
    N_ARGS = 2 + 2 * MAX_OPERANDS
    N_KNOWN = 32

cdef tuple NONE_GIVEN = ()

# A call that was checked: its arrays, by what no other Tensor of the process has, and what is passed to the kernel.
# Type, shape and address of a Tensor never change.
cdef struct Known:
    uint64_t serials[MAX_OPERANDS]
    int64_t args[N_ARGS]
    int64_t n


cdef inline Range reach_of(Operand* x, int64_t n, int64_t width) noexcept:
    """What n rows of some numbers reach over; one row where all events share it."""
    cdef Range result
    cdef int64_t last = 0 if x.strides[0] == 0 else 8 * (n - 1) * x.strides[0]
    result.low = x.data + (last if last < 0 else 0)
    result.high = x.data + (last if last > 0 else 0) + 8 * width
    return result


cdef inline void widen(Range* all, const Range* one) noexcept:
    if one.low < all.low:
        all.low = one.low
    if one.high > all.high:
        all.high = one.high


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
    cdef readonly tuple output_names
    cdef tuple out_labels_       # of the entries of out=, for messages
    cdef int n_inputs_
    cdef int n_outputs_
    cdef double constant_
    cdef HostFunction host_
    cdef dict kernels_           # device id -> Kernel
    cdef Known* known_           # N_KNOWN calls on Tensors of a device, all of whose outputs were given

    # Not __init__: there is no such object without them.
    def __cinit__(self, str stem, str kernel, input_names, output_names, double constant):
        self.stem_ = stem
        self.kernel = kernel
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        self.out_labels_ = tuple([f"out[{i}] ({name})" for i, name in enumerate(self.output_names)])
        self.n_inputs_ = len(self.input_names)
        self.n_outputs_ = len(self.output_names)
        if self.n_inputs_ + self.n_outputs_ > MAX_OPERANDS:
            raise ValueError(f"kernel: expected at most {MAX_OPERANDS} arrays, got {self.n_inputs_ + self.n_outputs_}")
        self.constant_ = constant
        self.host_ = host_function(kernel)
        self.kernels_ = {}
        self.known_ = NULL

    def __dealloc__(self):
        free(self.known_)

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
        cdef int n_in = self.n_inputs_, n_out = self.n_outputs_
        cdef int i
        cdef int64_t n
        cdef Kernel kernel = None
        cdef Known* known
        cdef Stream consumer
        cdef Intake intake = Intake.__new__(Intake)
        cdef list arrays = listed(inputs, "inputs")
        if conditions is not NONE_GIVEN:
            arrays += listed(conditions, "conditions")
        if len(arrays) != n_in:
            raise ShapeError(
                f"inputs: expected {n_in} arrays ({', '.join(self.input_names)}), conditions counted in, "
                f"got {len(arrays)}"
            )
        results = None if out is None else listed(out, "out")
        first = arrays[0]
        intake.locate(first, self.input_names[0])
        if intake.device_type != DEVICE_CPU and intake.device_type != DEVICE_CUDA:
            raise TypeError(f"{self.input_names[0]}: expected an array on a CPU or a CUDA device, "
                            f"got DLPack device type {intake.device_type}")
        intake.choose(stream, first)
        known = NULL
        if intake.device is not None:
            known = self.place_of(arrays, results)
        if known != NULL and is_this(known, arrays, results):
            n = known.n
            memcpy(args, known.args, sizeof(args))
            intake.reads_, intake.writes_ = arrays, results
            if n > 0:
                self.run(self.kernel_for(intake.device, intake.stream), intake, args, n)
            return results
        for i in range(n_in):
            intake.take(&operands[i], arrays[i], self.input_names[i], False)
        n = self.batch(operands)
        results = self.outputs(intake, operands, n, results)
        if n > 0 and intake.device is not None:
            kernel = self.kernel_for(intake.device, intake.stream)      # before anything is made
        missing = [i for i in range(n_out) if results[i] is None]
        if missing:
            try:
                self.make_missing(intake, operands + n_in, n, results, missing)
            except CaptureError:        # of another library, whose allocator may know what to do
                if not self.borrow_missing(intake, operands + n_in, n, results, missing, first):
                    raise
        self.lay_out(operands, args, n)
        if n > 0:
            self.run(kernel, intake, args, n)
        if known != NULL:
            remember(known, arrays, results, args, n)
        if missing:
            # After the launch: a framework that takes a result over orders itself behind what is queued by then.
            consumer = framework_stream(first)
            for i in missing:
                if type(results[i]) is Tensor:
                    results[i] = hand_over(<Tensor>results[i], first, consumer)
        return results

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

    cdef list outputs(self, Intake intake, Operand* operands, int64_t n, list results):
        """Check the given outputs; the list has None where one is still to be made."""
        cdef int i, k
        cdef int64_t width
        cdef Operand* x
        cdef Operand* y
        cdef Range reaches[MAX_OPERANDS]
        cdef Range mine
        cdef Range all                   # from the first byte that any of them reaches to the last one
        cdef int n_before
        if results is None:
            for i in range(self.n_outputs_):
                operands[self.n_inputs_ + i].data = NULL
            return [None] * self.n_outputs_
        for i in range(self.n_inputs_):
            reaches[i] = reach_of(&operands[i], n, 1)
            if i == 0:
                all = reaches[0]
            else:
                widen(&all, &reaches[i])
        if len(results) != self.n_outputs_:
            raise ShapeError(f"out: expected {self.n_outputs_} entries ({', '.join(self.output_names)}), "
                             f"got {len(results)}")
        for i in range(self.n_outputs_):
            n_before = self.n_inputs_ + i
            x = &operands[n_before]
            x.data = NULL
            reaches[n_before].low = reaches[n_before].high = NULL
            if results[i] is None:
                continue
            name = self.out_labels_[i]
            intake.take(x, results[i], name, True)
            width = self.width(i)
            self.check_output(x, name, n, width, intake.device is not None)
            if n == 0:
                continue
            mine = reach_of(x, n, width)
            reaches[n_before] = mine
            if not meet(&all, &mine):        # most often: arrays that were made one behind the other
                widen(&all, &mine)
                continue
            for k in range(n_before):
                if not meet(&reaches[k], &mine):
                    continue
                y = &operands[k]
                if rows_overlap(y.data, 1 if y.strides[0] == 0 else n, 8 * y.strides[0],
                                8 * (1 if k < self.n_inputs_ else self.width(k - self.n_inputs_)),
                                x.data, n, 8 * x.strides[0], 8 * width):
                    other = self.input_names[k] if k < self.n_inputs_ else self.out_labels_[k - self.n_inputs_]
                    raise ValueError(f"{name}: expected memory of its own, got memory shared with {other}")
            widen(&all, &mine)
        return results

    cdef inline int64_t width(self, int output) noexcept:
        return 1 if output == self.n_outputs_ - 1 else 4

    cdef int check_output(self, Operand* x, str name, int64_t n, int64_t width, bint on_gpu) except -1:
        if x.code != CODE_FLOAT or x.bits != 64:
            raise DTypeError(f"{name}: expected dtype float64, got {describe_dtype(x)}")
        if x.ndim != (1 if width == 1 else 2) or x.shape[0] != n or (width > 1 and x.shape[1] != width):
            wanted = (n,) if width == 1 else tuple([n, width])
            raise ShapeError(f"{name}: expected shape {wanted}, got {shape_of(x)}")
        if x.readonly:
            raise ValueError(f"{name}: expected a writable array, got a read-only one")
        if n <= 1:
            x.strides[0] = width
        if x.strides[0] < width or (width > 1 and x.strides[1] != 1):
            raise ShapeError(
                f"{name}: expected rows that are contiguous and do not overlap, got strides {strides_told(x)} "
                "(in elements)"
            )
        # The GPU stores momenta 16 bytes at a time.
        cdef int64_t alignment = 16 if on_gpu and width > 1 else 8
        if <uintptr_t>x.data % alignment != 0 or 8 * x.strides[0] % alignment != 0:
            raise ShapeError(f"{name}: expected rows aligned to {alignment} bytes, got data at {<uintptr_t>x.data:#x} "
                             f"and rows {8 * x.strides[0]} bytes apart")
        return 0

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

    cdef int make_missing(self, Intake intake, Operand* outputs, int64_t n, list results, list missing) except -1:
        """Make the outputs that were not given: on a device as views of one allocation."""
        cdef int64_t shape[2]
        cdef int64_t total = 0
        cdef Buffer slab
        cdef Tensor tensor
        cdef int i, ndim
        if intake.device is not None:
            for i in missing:
                total += padded(8 * n * self.width(i))
            slab = allocate(intake.device, total, intake.stream)
            total = 0
        for i in missing:
            shape[0] = n
            shape[1] = self.width(i)
            ndim = 1 if shape[1] == 1 else 2
            if intake.device is None:
                tensor = empty_host(CODE_FLOAT, 64, ndim, shape)
            else:
                tensor = make_tensor(slab, None, <void*>(slab.ptr_ + <size_t>total), DEVICE_CUDA, intake.device_id,
                                     CODE_FLOAT, 64, ndim, shape, NULL, False)
                total += padded(8 * n * shape[1])
            outputs[i].data = <char*>tensor.data_
            outputs[i].strides[0] = shape[1]
            results[i] = tensor
        return 0

    cdef bint borrow_missing(self, Intake intake, Operand* outputs, int64_t n, list results, list missing,
                             object first) except -1:
        """Let the library of the first array make the outputs that were not given; False where it cannot."""
        cdef int64_t shape[2]
        cdef int i
        for i in missing:
            shape[0], shape[1] = n, self.width(i)
            results[i] = framework_array(intake, first, CODE_FLOAT, 64, 1 if shape[1] == 1 else 2, shape)
            if results[i] is None:
                return False
            intake.take(&outputs[i], results[i], self.out_labels_[i], True)
            self.check_output(&outputs[i], self.out_labels_[i], n, shape[1], True)
        return True

    cdef int run(self, Kernel kernel, Intake intake, int64_t* args, int64_t n) except -1:
        cdef int pushed
        cdef int64_t block
        cdef void* params[1]
        if intake.device is None:
            with nogil:
                run_events(self.host_.run_, args, n)
            return 0
        block = SMALL_BLOCK if n < SMALL_BATCH else LARGE_BLOCK
        params[0] = args
        pushed = intake.device.push()
        try:
            intake.before()
            kernel.launch_raw(<unsigned int>((n + block - 1) // block), 1, 1, <unsigned int>block, 1, 1, 0,
                              intake.stream, params)
            intake.after()
        finally:
            intake.device.pop(pushed)
        return 0

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


cdef inline int64_t padded(int64_t nbytes):
    return (nbytes + OUTPUT_ALIGNMENT - 1) // OUTPUT_ALIGNMENT * OUTPUT_ALIGNMENT
