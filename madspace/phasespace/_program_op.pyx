"""One call of a program on a GPU: checks, outputs, one launch."""

import numpy as np

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset
from libcpp.vector cimport vector

from madspace.core._operand cimport (
    Intake, Operand, describe_dtype, hand_over, listed, rows_overlap, shape_of, strides_told,
)
from madspace.core.memory cimport Buffer, allocate
from madspace.core.tensor cimport MAX_NDIM, Tensor, make_tensor
from madspace.phasespace._program_plan cimport (
    MAX_BATCH, SMALL_BATCH, LaidOut, Launcher, OnDevice, Plan, kLargeProgram, kSmallProgram, lay_out,
    most_events,
)

from madspace.errors import DTypeError, ShapeError, UnsupportedOpError


cdef enum:
    CODE_INT = 0
    CODE_FLOAT = 2
    DEVICE_CUDA = 2
    OUTPUT_ALIGNMENT = 256       # of each array in a slab of results: no two share a memory transaction


cdef type NUMPY_NUMBER = np.generic

# An array that goes in or comes out.
cdef struct Kind:
    int code
    int ndim                     # of an event
    int64_t shape[MAX_NDIM]
    int64_t count                # elements of an event
    bint shared                  # by all events


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
    """

    cdef readonly tuple input_names
    cdef readonly tuple output_names
    cdef tuple out_labels_
    cdef int n_inputs_
    cdef int n_outputs_
    cdef vector[Kind] kinds_             # of the inputs, then of the outputs
    cdef object program_
    cdef list output_shared_
    cdef str kernels_
    cdef dict plans_                     # of the whole function, by the inputs that are drawn
    cdef Plan shared_                    # None: no result is shared

    def __cinit__(self, program, shared_program, input_shared, output_shared, str kernels):
        cdef list flags = [bool(flag) for flag in output_shared]
        cdef list places = [i for i, flag in enumerate(output_shared) if flag]
        self.input_names = tuple([x.name for x in program.inputs])
        self.output_names = tuple([x.name for x in program.outputs])
        self.out_labels_ = tuple([f"out[{i}] ({name})" for i, name in enumerate(self.output_names)])
        self.n_inputs_ = len(self.input_names)
        self.n_outputs_ = len(self.output_names)
        for argument, flag in zip((*program.inputs, *program.outputs), (*input_shared, *output_shared)):
            self.add_kind(argument, flag)
        n = self.n_inputs_
        self.program_, self.output_shared_, self.kernels_ = program, flags, kernels
        self.plans_ = {}
        if shared_program is not None:
            self.shared_ = Plan(shared_program, [True] * len(places), [n + i for i in places], (), kernels)

    cdef int add_kind(self, argument, bint shared) except -1:
        cdef Kind kind
        cdef int i
        if len(argument.shape) >= MAX_NDIM:
            raise UnsupportedOpError(f"{argument.name}: expected at most {MAX_NDIM - 1} axes per event on a GPU, "
                                     f"got {len(argument.shape)}")
        kind.code = CODE_FLOAT if argument.dtype.kind == "f" else CODE_INT
        kind.ndim = len(argument.shape)
        kind.count = 1
        kind.shared = shared
        for i in range(kind.ndim):
            kind.shape[i] = argument.shape[i]
            kind.count *= kind.shape[i]
        self.kinds_.push_back(kind)
        return 0

    def __call__(self, list arrays, out, stream, bint as_tensors, draw):
        """Run the program; returns the results as a list, or None where the first array is on the CPU.

        `arrays`: arguments and globals in order, numbers where all events share them, None where they are drawn.
        `as_tensors`: new results are Tensors, whatever the arguments are. `draw`: None, or seed, number of the first
        event, number of events (-1: as the arrays tell).
        """
        cdef vector[Operand] operands
        cdef Intake intake = Intake.__new__(Intake)
        cdef Plan plan
        cdef OnDevice here = None
        cdef int64_t n, n_launched, n_events = -1
        cdef uint64_t seed = 0, offset = 0
        cdef int i
        drawn = ()
        first = None
        if draw is not None:
            seed, offset, n_events = draw
            drawn = tuple([i for i in range(self.n_inputs_) if arrays[i] is None])
        for i in range(self.n_inputs_):
            if not is_number(arrays[i]) and (draw is None or arrays[i] is not None):
                first = arrays[i]
                intake.locate(first, self.input_names[i])
                break
        if first is None or intake.device_type != DEVICE_CUDA:
            return None
        operands.resize(self.n_inputs_ + self.n_outputs_)
        intake.choose(stream, first)
        for i in range(self.n_inputs_):
            if draw is not None and arrays[i] is None:
                self.skip_input(&operands[i], i)
            else:
                self.take_input(intake, &operands[i], arrays[i], i)
        n = self.batch(operands.data(), n_events)
        results = self.outputs(intake, operands.data(), n, out)
        plan = self.plan_for(n, drawn)
        n_launched = max(n, 1)
        if plan is not None:
            here = plan.on_device(intake.device, intake.stream)      # before anything is made
        missing = [i for i in range(self.n_outputs_) if results[i] is None]
        if missing:
            self.make_missing(intake, operands.data(), n, results, missing)
        if here is not None:
            self.launch(here, intake, operands.data(), n_launched, seed, offset)
        # After the launch: a framework that takes a result over orders itself behind what is queued by then.
        if not as_tensors:
            for i in missing:
                results[i] = hand_over(<Tensor>results[i], first)
        return results

    cdef Plan plan_for(self, int64_t n, tuple drawn):
        """What has to run for n events; None where there is nothing to write."""
        cdef int i
        cdef bint shared_only = True
        cdef bint any_elements = False
        for i in range(self.n_inputs_, self.n_inputs_ + self.n_outputs_):
            shared_only = shared_only and self.kinds_[i].shared
            if self.kinds_[i].count > 0 and (n > 0 or self.kinds_[i].shared):
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
                raise ShapeError(f"{name}: expected shape {self.wanted(i, 'batch')}, got a number")
            if kind.ndim != 0:
                raise ShapeError(f"{name}: expected shape {self.wanted(i, 1)}, got a number")
            dtype = np.asarray(array).dtype
            if dtype != dtype_name(kind):
                raise DTypeError(f"{name}: expected dtype {dtype_name(kind)}, got {dtype}")
            number = float(array)
            x.data = NULL
            memcpy(&x.shape[0], &number, 8)
            return 0
        intake.take(x, array, name, False)
        if x.code != kind.code or x.bits != (64 if kind.code == CODE_FLOAT else 32):
            raise DTypeError(f"{name}: expected dtype {dtype_name(kind)}, got {describe_dtype(x)}")
        if kind.shared and x.ndim == kind.ndim:
            # Without the axis of the batch.
            for k in range(x.ndim, 0, -1):
                x.shape[k], x.strides[k] = x.shape[k - 1], x.strides[k - 1]
            x.ndim += 1
            x.shape[0] = 1
        fits = x.ndim == kind.ndim + 1 and (not kind.shared or x.shape[0] == 1)
        if fits:
            for k in range(kind.ndim):
                fits = fits and x.shape[1 + k] == kind.shape[k]
        if not fits:
            wanted = self.wanted(i, 1 if kind.shared else "batch")
            raise ShapeError(f"{name}: expected shape {wanted}, got {shape_of(x)}")
        if <uintptr_t>x.data % (x.bits // 8) != 0:
            raise ShapeError(f"{name}: expected data aligned to {x.bits // 8} bytes, got {<uintptr_t>x.data:#x}")
        if x.shape[0] == 1:
            x.strides[0] = 0
        if x.data == NULL:
            x.data = <char*>16       # no elements, so nothing reads it; NULL would be a number
        return 0

    cdef str wanted(self, int i, object batch):
        cdef list extents = [str(self.kinds_[i].shape[k]) for k in range(self.kinds_[i].ndim)]
        return f"({', '.join([str(batch), *extents])}{'' if extents else ','})"

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
        if n > MAX_BATCH:
            raise ShapeError(f"{source}: expected at most {MAX_BATCH} events in a batch, got {n}")
        return n

    cdef list outputs(self, Intake intake, Operand* operands, int64_t n, object out):
        """Check the given outputs; the list has None where one is still to be made."""
        cdef int i, k
        cdef Operand* x
        if out is None:
            return [None] * self.n_outputs_
        results = listed(out, "out")
        if len(results) != self.n_outputs_:
            raise ShapeError(f"out: expected {self.n_outputs_} entries ({', '.join(self.output_names)}), "
                             f"got {len(results)}")
        for i in range(self.n_outputs_):
            x = &operands[self.n_inputs_ + i]
            x.data = NULL
            if results[i] is None:
                continue
            intake.take(x, results[i], self.out_labels_[i], True)
            self.check_output(x, self.n_inputs_ + i, self.out_labels_[i], n)
            for k in range(self.n_inputs_ + i):
                if operands[k].data != NULL and self.share(operands, k, self.n_inputs_ + i):
                    other = self.input_names[k] if k < self.n_inputs_ else self.out_labels_[k - self.n_inputs_]
                    raise ValueError(f"{self.out_labels_[i]}: expected memory of its own, got memory shared with "
                                     f"{other}")
        return results

    cdef int check_output(self, Operand* x, int i, str name, int64_t n) except -1:
        cdef Kind* kind = &self.kinds_[i]
        cdef int64_t length = 1 if kind.shared else n, expected = 1
        cdef int k
        if x.code != kind.code or x.bits != (64 if kind.code == CODE_FLOAT else 32):
            raise DTypeError(f"{name}: expected dtype {dtype_name(kind)}, got {describe_dtype(x)}")
        fits = x.ndim == kind.ndim + 1 and x.shape[0] == length
        if fits:
            for k in range(kind.ndim):
                fits = fits and x.shape[1 + k] == kind.shape[k]
        if not fits:
            raise ShapeError(f"{name}: expected shape {self.wanted(i, length)}, got {shape_of(x)}")
        if x.readonly:
            raise ValueError(f"{name}: expected a writable array, got a read-only one")
        for k in range(kind.ndim - 1, -1, -1):
            if kind.shape[k] != 1 and x.strides[1 + k] != expected and kind.count > 0:
                raise ShapeError(f"{name}: expected events that are contiguous, got strides {strides_told(x)} "
                                 "(in elements)")
            x.strides[1 + k] = expected
            expected *= kind.shape[k]
        if length <= 1:
            x.strides[0] = kind.count
        if x.strides[0] < kind.count:
            raise ShapeError(f"{name}: expected events that do not overlap, got strides {strides_told(x)} "
                             "(in elements)")
        if <uintptr_t>x.data % (x.bits // 8) != 0:
            raise ShapeError(f"{name}: expected data aligned to {x.bits // 8} bytes, got {<uintptr_t>x.data:#x}")
        return 0

    cdef bint share(self, Operand* operands, int a, int b) noexcept:
        """Whether two operands with memory share bytes."""
        cdef int64_t rows[2]
        cdef int64_t stride[2]
        cdef int64_t width[2]
        cdef const char* data[2]
        cdef Operand* x
        cdef int64_t low, high
        cdef int which, k, i
        for which in range(2):
            i = a if which == 0 else b
            x = operands + i
            if self.kinds_[i].count == 0 or x.shape[0] == 0:
                return False
            low, high = 0, 1
            for k in range(1, x.ndim):
                if x.strides[k] < 0:
                    low += (x.shape[k] - 1) * x.strides[k]
                else:
                    high += (x.shape[k] - 1) * x.strides[k]
            data[which] = x.data + low * (x.bits // 8)
            width[which] = (high - low) * (x.bits // 8)
            stride[which] = x.strides[0] * (x.bits // 8)
            rows[which] = 1 if x.strides[0] == 0 else x.shape[0]
        return rows_overlap(data[0], rows[0], stride[0], width[0], data[1], rows[1], stride[1], width[1])

    cdef int make_missing(self, Intake intake, Operand* operands, int64_t n, list results, list missing) except -1:
        """Make the outputs that were not given, as views of one allocation."""
        cdef int64_t shape[MAX_NDIM]
        cdef int64_t total = 0, itemsize
        cdef Buffer slab
        cdef Tensor tensor
        cdef Kind* kind
        cdef Operand* x
        cdef int i, k
        for i in missing:
            total += self.padded_size(i, n)
        slab = allocate(intake.device, total, intake.stream)
        total = 0
        for i in missing:
            kind = &self.kinds_[self.n_inputs_ + i]
            x = operands + self.n_inputs_ + i
            itemsize = 8 if kind.code == CODE_FLOAT else 4
            shape[0] = 1 if kind.shared else n
            for k in range(kind.ndim):
                shape[1 + k] = kind.shape[k]
            tensor = make_tensor(slab, None, <void*>(slab.ptr_ + <size_t>total), DEVICE_CUDA, intake.device_id,
                                 <unsigned char>kind.code, <unsigned char>(8 * itemsize), kind.ndim + 1, shape, NULL,
                                 False)
            total += self.padded_size(i, n)
            x.data = <char*>tensor.data_
            x.bits = <unsigned char>(8 * itemsize)
            for k in range(kind.ndim + 1):
                x.strides[k] = tensor.strides_[k]
            if x.data == NULL:
                x.data = <char*>16       # no elements
            results[i] = tensor
        return 0

    cdef int64_t padded_size(self, int output, int64_t n) noexcept:
        cdef Kind* kind = &self.kinds_[self.n_inputs_ + output]
        cdef int64_t nbytes = (1 if kind.shared else n) * kind.count * (8 if kind.code == CODE_FLOAT else 4)
        return (nbytes + OUTPUT_ALIGNMENT - 1) // OUTPUT_ALIGNMENT * OUTPUT_ALIGNMENT

    cdef int launch(self, OnDevice here, Intake intake, Operand* operands, int64_t n, uint64_t seed,
                    uint64_t offset) except -1:
        cdef uint64_t small[512]         # kSmallProgram bytes
        cdef vector[uint64_t] large
        cdef char* args = <char*>small
        cdef void* params[1]
        cdef Launcher* launcher = &here.small if n < SMALL_BATCH else &here.large
        cdef LaidOut* layout = &here.layout.it
        cdef int64_t first = 0, most = most_events(layout, operands), part
        cdef int pushed
        if layout.nbytes > <size_t>kSmallProgram:
            large.resize(kLargeProgram // 8)
            args = <char*>large.data()
        else:
            memset(small + layout.nbytes // 8, 0, sizeof(small) - layout.nbytes)
        params[0] = args
        pushed = intake.device.push()
        try:
            intake.before()
            while first < n:
                part = min(n - first, most)
                lay_out(layout, args, operands, first, part, seed, offset, launcher.block)
                here.kernel.launch_raw(<unsigned int>((part + launcher.block - 1) // launcher.block), 1, 1,
                                       <unsigned int>launcher.block, 1, 1, launcher.shared, intake.stream, params)
                first += part
            intake.after()
        finally:
            intake.device.pop(pushed)
        return 0


cdef bint is_number(object x):
    return not isinstance(x, Tensor) and isinstance(x, (float, int, NUMPY_NUMBER))


cdef str dtype_name(const Kind* kind):
    return "float64" if kind.code == CODE_FLOAT else "int32"
