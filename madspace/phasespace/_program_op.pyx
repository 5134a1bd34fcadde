"""One call of a program on a GPU: checks, outputs, one launch."""

import numpy as np

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

from madspace.core._dlpack_abi cimport DEVICE_CUDA
from madspace.core._dtypes cimport CODE_FLOAT, CODE_INT
from madspace.core._operand cimport Intake, Operand, describe_dtype, shape_of
from madspace.core.device cimport Device
from madspace.core.stream cimport Stream
from madspace.core.tensor cimport MAX_NDIM, Tensor
from madspace.phasespace._outputs cimport (
    Kind, Outputs, dtype_name, has_shape, has_type, launch, wanted_shape,
)
from madspace.phasespace._program_plan cimport (
    MAX_BATCH, SMALL_BATCH, LaidOut, Launcher, OnDevice, Plan, kLargeProgram, kSmallProgram, kSmallWords, lay_out,
    most_events,
)

from madspace.errors import DTypeError, ShapeError, UnsupportedOpError


cdef enum:
    ANY_ROW = 1                  # bytes: results may start at any element


cdef type NUMPY_NUMBER = np.generic


cdef class ProgramOp:
    """A compiled function on GPUs.

    Parameters
    ----------
    program : Program
        The whole function.
    shared_program : Program or None
        What computes the results that all events share, from what they share: for batches without events.
    input_shared, output_shared : sequence of bool
        Whether all events share an argument (globals counted in) or a result.
    kernels : str
        "shipped": a fused kernel if one comes with the package, else the interpreter; "any": as well, but where none
        comes it is compiled; "compiled" and "interpreted": this alone.
    allocate : callable, optional
        Makes new results on devices, given shape, whether it is float64 or int32, and the number of the device.
    input_whole : sequence of bool, optional
        Which arguments must have as many events as there are in the batch: a gradient that is wanted would be a sum.
    """

    cdef readonly tuple input_names
    cdef Outputs outputs_
    cdef int n_inputs_
    cdef int n_outputs_
    cdef vector[Kind] kinds_             # of the inputs
    cdef object program_
    cdef list output_shared_
    cdef str kernels_
    cdef object allocate_
    cdef dict plans_                     # of the whole function, by the inputs that are drawn
    cdef Plan shared_                    # None: no result is shared

    def __cinit__(self, program, shared_program, input_shared, output_shared, str kernels,
                  allocate=None, input_whole=None):
        cdef Kind kind
        cdef list flags = [bool(flag) for flag in output_shared]
        cdef list places = [i for i, flag in enumerate(output_shared) if flag]
        self.input_names = tuple([x.name for x in program.inputs])
        self.outputs_ = Outputs([x.name for x in program.outputs], self.input_names, ANY_ROW)
        self.n_inputs_ = len(self.input_names)
        self.n_outputs_ = len(self.outputs_.names)
        for argument, flag in zip(program.inputs, input_shared):
            self.kinds_.push_back(kind_of(argument, flag))
        for i, flag in enumerate(input_whole or ()):
            self.kinds_[i].whole = flag
        for argument, flag in zip(program.outputs, output_shared):
            kind = kind_of(argument, flag)
            self.outputs_.add(&kind)
        n = self.n_inputs_
        self.program_, self.output_shared_, self.kernels_ = program, flags, kernels
        self.allocate_ = allocate
        self.plans_ = {}
        if shared_program is not None:
            self.shared_ = Plan(shared_program, [True] * len(places), [n + i for i in places], (), kernels)

    @property
    def output_names(self):
        return self.outputs_.names

    def load(self, int64_t n, tuple drawn, Device device not None, Stream stream not None):
        """Load or compile what runs for n events, so that a call raises nothing that this does not."""
        cdef Plan plan = self.plan_for(n, drawn)
        if plan is not None:
            plan.on_device(device, stream)

    def __call__(self, list arrays, out, stream, bint as_tensors, draw, Device device=None):
        """Run the program; returns the results as a list, or None where the first array is on the CPU.

        `arrays`: arguments and globals in order, numbers where all events share them, None where they are drawn.
        `as_tensors`: new results are Tensors, whatever the arguments are. `draw`: None, or seed, number of the first
        event, number of events (-1: as the arrays tell). `device`: where, if no array may be there to tell.
        """
        cdef vector[Operand] operands
        cdef vector[int] missing
        cdef Intake intake = Intake.__new__(Intake)
        cdef Plan plan
        cdef OnDevice here = None
        cdef int64_t n, n_events = -1
        cdef uint64_t seed = 0, offset = 0
        cdef int i
        drawn = ()
        first = None
        if draw is not None:
            seed, offset, n_events = draw
            drawn = tuple([i for i in range(self.n_inputs_) if arrays[i] is None])
        if device is not None:
            intake.device_type, intake.device_id, intake.device = DEVICE_CUDA, device.id, device
        for i in range(0 if device is not None else self.n_inputs_):
            if not is_number(arrays[i]) and (draw is None or arrays[i] is not None):
                first = arrays[i]
                intake.locate(first, self.input_names[i])
                break
        if intake.device is None:
            return None
        operands.resize(self.n_inputs_ + self.n_outputs_)
        intake.choose(stream, first)
        for i in range(self.n_inputs_):
            if draw is not None and arrays[i] is None:
                self.skip_input(&operands[i], i)
            else:
                self.take_input(intake, &operands[i], arrays[i], i)
        n = self.batch(operands.data(), n_events)
        results = self.outputs_.check(intake, operands.data(), n, out)
        plan = self.plan_for(n, drawn)
        if plan is not None:
            here = plan.on_device(intake.device, intake.stream)      # before anything is made
        self.outputs_.make(intake, operands.data(), n, results, missing, first, self.allocate_, as_tensors)
        if here is not None:
            self.run(here, intake, operands.data(), max(n, 1), seed, offset)
        self.outputs_.give(intake, operands.data(), results, missing, first, as_tensors)
        return results

    cdef Plan plan_for(self, int64_t n, tuple drawn):
        """What has to run for n events; None where there is nothing to write."""
        cdef int i
        cdef bint shared_only = True
        cdef bint any_elements = False
        for i in range(self.n_outputs_):
            shared_only = shared_only and self.outputs_.kinds_[i].shared
            if self.outputs_.kinds_[i].count > 0 and (n > 0 or self.outputs_.kinds_[i].shared):
                any_elements = True
        if not any_elements:
            return None
        if n == 0 or shared_only:
            return self.shared_
        plan = self.plans_.get(drawn)
        if plan is None:
            plan = Plan(self.program_, self.output_shared_,
                        [self.n_inputs_ + i for i in range(self.n_outputs_)], drawn, self.kernels_)
            self.plans_[drawn] = plan
        return plan

    cdef int skip_input(self, Operand* x, int i) except -1:
        """Check an input that is drawn."""
        cdef Kind* kind = &self.kinds_[i]
        if kind.shared or kind.code != CODE_FLOAT:
            raise TypeError(f"{self.input_names[i]}: expected an array, got None: only float64 of each event is drawn")
        x.data = NULL
        x.shape[0] = 1
        return 0

    cdef int take_input(self, Intake intake, Operand* x, object array, int i) except -1:
        cdef Kind* kind = &self.kinds_[i]
        cdef str name = self.input_names[i]
        cdef double number
        cdef int k
        if is_number(array):
            if not kind.shared:
                raise ShapeError(f"{name}: expected shape {wanted_shape(kind, 'batch')}, got a number")
            if kind.ndim != 0:
                raise ShapeError(f"{name}: expected shape {wanted_shape(kind, 1)}, got a number")
            dtype = np.asarray(array).dtype
            if dtype != dtype_name(kind):
                raise DTypeError(f"{name}: expected dtype {dtype_name(kind)}, got {dtype}")
            number = float(array)
            x.data = NULL
            memcpy(&x.shape[0], &number, 8)
            return 0
        intake.take(x, array, name, False)
        if not has_type(kind, x):
            raise DTypeError(f"{name}: expected dtype {dtype_name(kind)}, got {describe_dtype(x)}")
        if (kind.shared or kind.whole) and x.ndim == kind.ndim:
            # Without the axis of the batch.
            for k in range(x.ndim, 0, -1):
                x.shape[k], x.strides[k] = x.shape[k - 1], x.strides[k - 1]
            x.ndim += 1
            x.shape[0] = 1
        if not has_shape(kind, x) or (kind.shared and x.shape[0] != 1):
            wanted = wanted_shape(kind, 1 if kind.shared else "batch")
            raise ShapeError(f"{name}: expected shape {wanted}, got {shape_of(x)}")
        if <uintptr_t>x.data % (x.bits // 8) != 0:
            raise ShapeError(f"{name}: expected data aligned to {x.bits // 8} bytes, got {<uintptr_t>x.data:#x}")
        if x.shape[0] == 1:
            x.strides[0] = 0
        if x.data == NULL:
            x.data = <char*>16       # no elements, so nothing reads it; NULL would be a number
        return 0

    cdef int64_t batch(self, Operand* operands, int64_t n_events) except -1:
        """Return the number of events; arrays of length 1 fit any."""
        cdef int64_t n = 1 if n_events < 0 else n_events
        cdef int i
        cdef str source = "" if n_events < 0 else "n_events"
        for i in range(self.n_inputs_):
            if self.kinds_[i].shared or operands[i].shape[0] == 1:
                continue
            if source and operands[i].shape[0] != n:
                raise ShapeError(f"{self.input_names[i]}: expected {n} events, as {source} has, "
                                 f"got {operands[i].shape[0]}")
            n, source = operands[i].shape[0], self.input_names[i]
        for i in range(self.n_inputs_):
            if self.kinds_[i].whole and n != (1 if self.kinds_[i].shared else operands[i].shape[0]):
                raise UnsupportedOpError(f"{self.input_names[i]}: on a GPU expected {n} numbers where a gradient is "
                                         "wanted, got 1")
        if n > MAX_BATCH:
            raise ShapeError(f"{source}: expected at most {MAX_BATCH} events in a batch, got {n}")
        return n

    cdef int run(self, OnDevice here, Intake intake, Operand* operands, int64_t n, uint64_t seed,
                 uint64_t offset) except -1:
        cdef uint64_t small[kSmallWords]
        cdef vector[uint64_t] large
        cdef char* args = <char*>small
        cdef Launcher* launcher = &here.small if n < SMALL_BATCH else &here.large
        cdef LaidOut* layout = &here.layout.it
        cdef int64_t first = 0, most = most_events(layout, operands), part
        cdef int pushed
        if layout.nbytes > <size_t>kSmallProgram:
            large.resize(kLargeProgram // 8)
            args = <char*>large.data()
        else:
            memset(small + layout.nbytes // 8, 0, sizeof(small) - layout.nbytes)
        pushed = intake.device.push()
        try:
            intake.before()
            while first < n:
                part = min(n - first, most)
                lay_out(layout, args, operands, first, part, seed, offset, launcher.block)
                launch(here.kernel, intake.stream, part, launcher.block, launcher.shared, args)
                first += part
            intake.after()
        finally:
            intake.device.pop(pushed)
        return 0


cdef Kind kind_of(argument, bint shared) except *:
    """What an argument or a result of a program has to be."""
    cdef Kind kind
    cdef int i
    if len(argument.shape) >= MAX_NDIM:
        raise UnsupportedOpError(f"{argument.name}: expected at most {MAX_NDIM - 1} axes per event on a GPU, "
                                 f"got {len(argument.shape)}")
    kind.code = CODE_FLOAT if argument.dtype.kind == "f" else CODE_INT
    kind.ndim = len(argument.shape)
    kind.count = 1
    kind.shared, kind.whole = shared, False
    for i in range(kind.ndim):
        kind.shape[i] = argument.shape[i]
        kind.count *= kind.shape[i]
    return kind


cdef bint is_number(object x):
    return not isinstance(x, Tensor) and isinstance(x, (float, int, NUMPY_NUMBER))
