"""One call of a per-event kernel: checks, outputs, one launch. The part of a mapping that has to cost microseconds."""

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from libcpp.vector cimport vector

from madspace.core._dlpack_abi cimport DEVICE_CPU, DEVICE_CUDA
from madspace.core._dtypes cimport CODE_FLOAT
from madspace.core._operand cimport Intake, Operand, Shown, describe_dtype, listed, look, shape_of
from madspace.core.device cimport Device
from madspace.core.kernel cimport Kernel
from madspace.core.module cimport shipped_module
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport Tensor
from madspace.cpu._lanes cimport HostFunction, host_function, run_events
from madspace.phasespace._outputs cimport Kind, Outputs, launch

from madspace.errors import DTypeError, ShapeError
from madspace.phasespace.results import result_type


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


cdef extern from *:
    """
    static inline PyObject* ms_new_tuple(PyObject* kind, Py_ssize_t n) {
        return ((PyTypeObject*)kind)->tp_alloc((PyTypeObject*)kind, n);
    }
    """
    object new_tuple "ms_new_tuple"(object kind, Py_ssize_t n)


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
    cdef type result_type_
    cdef int64_t* known_         # N_KNOWN calls that were checked: what the kernel got
    cdef int n_args_

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
        self.result_type_ = result_type(self.outputs_.names)
        self.n_args_ = 2 + 2 * (self.n_inputs_ + self.n_outputs_)
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
        """Run the kernel on one batch; arguments as of map_forward. Returns the outputs as a list."""
        return self.call(inputs, conditions, out, stream)

    cdef list call(self, object inputs, object conditions, object out, object stream):
        cdef Operand operands[MAX_OPERANDS]
        # EventArgs of cuda_src/include/madspace/event_args.h.
        cdef int64_t args[N_ARGS]
        cdef int n_in = self.n_inputs_
        cdef int i
        cdef int64_t n
        cdef int64_t* known = NULL
        cdef bint is_known = False
        cdef vector[int] missing
        cdef Kernel kernel = None
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
        if intake.device is not None and (results is None or len(results) == self.n_outputs_):
            known = self.place_of(first if results is None else results[self.n_outputs_ - 1])
            memcpy(args, known, self.n_args_ * sizeof(int64_t))     # other threads' calls may come there meanwhile
            is_known = self.is_known(args, intake, arrays, results)
        if is_known:
            n = args[0]
            if results is None:
                results = [None] * self.n_outputs_
        else:
            for i in range(n_in):
                intake.take(&operands[i], arrays[i], self.input_names[i], False)
            n = self.batch(operands)
            results = self.outputs_.check(intake, operands, n, results)
        if n > 0 and intake.device is not None:
            kernel = self.kernel_for(intake.device, intake.stream)      # before anything is made
        if not is_known or out is None:
            self.outputs_.make(intake, operands, n, results, missing, first, None, False)
        if not is_known:
            self.lay_out_inputs(operands, args, n)
        if not is_known or not missing.empty():
            self.lay_out_outputs(operands, args)
        if n > 0:
            self.run(kernel, intake, n, args)
        if known != NULL and not is_known:
            memcpy(known, args, self.n_args_ * sizeof(int64_t))
        self.outputs_.give(intake, operands, results, missing, first, False)
        return results

    cdef object named(self, list results):
        # What tuple.__new__ does, which is asked for through a call of Python's.
        cdef object answer = new_tuple(self.result_type_, len(results))
        cdef Py_ssize_t i = 0
        for array in results:
            Py_INCREF(array)
            PyTuple_SET_ITEM(answer, i, array)
            i += 1
        return answer

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

    cdef int64_t* place_of(self, object array) except NULL:
        """Where a call is found if it is known, by one of its arrays."""
        cdef uintptr_t address = <uintptr_t><void*>array
        if self.known_ == NULL:
            self.known_ = <int64_t*>calloc(N_KNOWN * self.n_args_, sizeof(int64_t))
            if self.known_ == NULL:
                raise MemoryError("no host memory left for the calls of a mapping")
        return self.known_ + (address >> 4) % N_KNOWN * self.n_args_

    cdef bint is_known(self, const int64_t* args, Intake intake, list arrays, list results) except -1:
        """Tell whether a call passes `args` to the kernel, which did so before and was right; if so, it is taken in.

        The types, shapes and strides that are seen here, and the addresses, leave nothing to be checked. `results` is
        None where they are made anew.
        """
        cdef Operand space
        cdef Shown x
        cdef const int64_t* data = args + 1
        cdef const int64_t* strides = data + self.n_inputs_
        cdef int i = 0, n_lent = 0, n_lent_results = 0
        cdef bint has_batch = False
        for array in arrays:
            if not (look(intake, &x, &space, array, False) and fits_input(&x, args[0], data[i], strides[i])):
                return False
            has_batch = has_batch or x.shape[0] == args[0]
            n_lent += type(array) is not Tensor
            i += 1
        if not has_batch:       # stride 0 is that of one number repeated, too, which tells the length of the batch
            return False
        data = strides + i
        strides = data + self.n_outputs_
        i = 0
        for array in results or ():
            if not (look(intake, &x, &space, array, True)
                    and fits_output(&x, &self.outputs_.kinds_[i], args[0], data[i], strides[i])):
                return False
            n_lent_results += type(array) is not Tensor
            i += 1
        intake.reads_ = without_lent(arrays, n_lent)
        if results is not None:
            intake.writes_ = without_lent(results, n_lent_results)
        return True

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

    cdef void lay_out_inputs(self, const Operand* operands, int64_t* args, int64_t n) noexcept:
        cdef int i
        args[0] = n
        for i in range(self.n_inputs_):
            args[1 + i] = <int64_t>operands[i].data
            args[1 + self.n_inputs_ + i] = operands[i].strides[0]

    cdef void lay_out_outputs(self, const Operand* operands, int64_t* args) noexcept:
        cdef int i
        args += 1 + 2 * self.n_inputs_
        for i in range(self.n_outputs_):
            args[i] = <int64_t>operands[self.n_inputs_ + i].data
            args[self.n_outputs_ + i] = operands[self.n_inputs_ + i].strides[0]
        memcpy(&args[2 * self.n_outputs_], &self.constant_, sizeof(double))

    cdef Kernel kernel_for(self, Device device, Stream stream):
        cdef Kernel kernel = self.kernels_.get(device.id)
        if kernel is None:
            kernel = shipped_module(self.stem_, device, stream).get(self.kernel)
            kernel.function_on(device, stream)
            self.kernels_[device.id] = kernel
        return kernel


cdef inline bint fits_input(const Shown* x, int64_t n, int64_t address, int64_t stride) noexcept:
    return (<int64_t>x.data == address and x.code == CODE_FLOAT and x.bits == 64 and x.ndim == 1
            and (stride == 0 if x.shape[0] == 1 else x.shape[0] == n and x.strides[0] == stride))


cdef inline bint fits_output(const Shown* x, const Kind* kind, int64_t n, int64_t address, int64_t stride) noexcept:
    return (<int64_t>x.data == address and x.code == CODE_FLOAT and x.bits == 64 and x.ndim == 1 + kind.ndim
            and x.shape[0] == n and (n == 1 or x.strides[0] == stride)
            and (kind.ndim == 0 or (x.shape[1] == kind.shape[0] and x.strides[1] == 1)))


cdef list without_lent(list arrays, int n_lent):
    """Arrays whose use has to be noted one by one."""
    if n_lent == 0:
        return arrays
    if n_lent == len(arrays):
        return []
    return [array for array in arrays if type(array) is Tensor]


def map_forward(self, inputs=NONE_GIVEN, conditions=NONE_GIVEN, *, out=None, stream=None, device=None, seed=None,
                offset=0, n_events=None, **named):
    """Map random numbers to phase-space points.

    Parameters
    ----------
    inputs, conditions : sequence of arrays
        Float64 arrays of shape ``(batch,)``, all on one device, from any library: NumPy, torch, CuPy, JAX,
        `madspace.Tensor`. The two lists are read one after the other. An array of length 1 stands for every event.
        The class lists the arguments and their units. Torch tensors that ask for gradients come in without them.
    out : sequence of arrays, optional
        Arrays for the outputs, in their order and ``det`` last; ``None`` entries are allocated. Float64, of the
        outputs' shapes, writable, on the device of the inputs, without memory in common with them or each other.
        Rows may be any distance apart; on a GPU momenta start at multiples of 16 bytes.
    stream : optional
        Where GPU work is queued: a `madspace.Stream`, a handle, anything with ``__cuda_stream__``, a torch stream.
        By default that of a ``with madspace.stream`` block, else the current stream of the framework that owns the
        first input, else the device's own stream.
    device : optional
        Where arrays on the CPU are to be mapped: "cuda", "cuda:<i>", an int or a `madspace.Device`; the results
        come back, and the call waits for them. See `FunctionRuntime.call`. "cpu" and None: where they are.
    seed, offset, n_events : int, optional
        As of `Mapping.map_forward`: random numbers for the inputs that are None, or for all.
    **named : array
        The arguments by name, if both lists are left out.

    Returns
    -------
    Result
        A named tuple of the outputs and ``det``, the Jacobian of the map, shape ``(batch,)``. Arrays of the kind of
        the first input; those given in `out` are returned as they are.

    Raises
    ------
    ShapeError
        Wrong number of arrays, rank, length, row distance or alignment.
    DTypeError
        An array is not float64.
    DeviceMismatchError
        Not all arrays are on the same device, or `device` is given for one that is not on the host.
    ValueError
        An output is read-only or shares memory with another array, or `stream` is given for arrays on the CPU.
    TypeError
        An argument is no array, or names do not fit.
    OutOfMemoryError
        The outputs do not fit into the device's memory.
    DriverError
        The driver refused the launch.
    DriverNotFoundError, CaptureError
        With `device`, as of `FunctionRuntime.call`.

    Notes
    -----
    On a GPU this is one kernel launch: nothing is waited for or copied, and nothing is allocated if all of `out` is
    given. Results that are not given share one allocation: keeping one keeps all. In a capture by another library
    they come from the allocator of the first input's library where it has an exchange table, as torch has; else
    CaptureError asks for `out`. On the CPU the call returns when the results are there; large batches are split
    over threads (``MADSPACE_NUM_THREADS``). The same bits come out for the same input, whatever the batch, the
    number of threads or the run.

    A faulty event (NaN, a number outside [0, 1], a negative mass, an energy below threshold) raises nothing: it
    gets ``det`` 0 and finite values elsewhere.
    """
    cdef EventOp op = self._forward
    if op is None or device is not None or seed is not None or n_events is not None or offset != 0 or named:
        return self._map_forward_otherwise(inputs, conditions, named, out=out, stream=stream, device=device, seed=seed,
                                           offset=offset, n_events=n_events)
    return op.named(op.call(inputs, conditions, out, stream))
