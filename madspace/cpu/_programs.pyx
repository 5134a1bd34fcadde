"""Programs on the CPU: straight-line code over scalar registers, in blocks of events, over the thread pool."""

from madspace.cpu._lanes cimport HostFunction, host_function, run_events
from madspace.errors import DTypeError, ShapeError

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from libc.stdint cimport int64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector


# 32 MiB of rows per thread; real programs have some hundreds.
MAX_REGISTERS = 65536
# Of one instruction: a list step's rows are a multiple of it.
MAX_VALUES = 4096

cdef HostFunction _run = host_function("program")


def op_table():
    """Return the ops: name to (number, inputs, outputs), -1 where an op takes lists of any length."""
    return {kOpCatalog[i].name.decode(): (i, kOpCatalog[i].n_in, kOpCatalog[i].n_out) for i in range(kOpCount)}


cdef class _View:
    """A buffer, held."""

    cdef Py_buffer view
    cdef bint held

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef _View _view(object array, str name, bint write, str formats):
    """Return the memory of a NumPy array, its element type among `formats` ("d" float64, "i" int32)."""
    cdef _View result = _View.__new__(_View)
    cdef int i
    if not PyObject_CheckBuffer(array):
        raise TypeError(f"{name}: expected a NumPy array, got {type(array).__name__}")
    flags = getattr(array, "flags", None)
    if write and not getattr(flags, "writeable", True):
        raise ValueError(f"{name}: expected a writable array, got a read-only one")
    PyObject_GetBuffer(array, &result.view, PyBUF_FORMAT | PyBUF_STRIDES | (PyBUF_WRITABLE if write else 0))
    result.held = True
    given = "B" if result.view.format == NULL else result.view.format.decode()
    if len(given) != 1 or given not in formats or result.view.itemsize != (8 if given == "d" else 4):
        wanted = " or ".join({"d": "float64", "i": "int32"}[f] for f in formats)
        raise DTypeError(f"{name}: expected {wanted} in native byte order, got {getattr(array, 'dtype', given)}")
    if <size_t>result.view.buf % result.view.itemsize != 0:
        raise ValueError(f"{name}: expected aligned memory, got address {<size_t>result.view.buf:#x}")
    for i in range(result.view.ndim):
        if result.view.strides[i] % result.view.itemsize != 0 and result.view.shape[i] > 1:
            raise ValueError(f"{name}: expected strides of whole elements, got {result.view.strides[i]} bytes")
    return result


cdef class _Operands:
    """The arrays of one side, as columns."""

    cdef list views              # keep the memory alive
    cdef vector[ProgramColumn] columns
    cdef int64_t batch           # -1 while every array has one event
    cdef str one                 # the name of the array that set it

    def __cinit__(self):
        self.views = []
        self.batch = -1
        self.one = ""

    cdef int add(self, str name, object array, object registers, int lowest, int n_registers, bint write) except -1:
        """Check an array with its registers and append its columns."""
        cdef _View view = _view(array, name, write, "di")
        cdef Py_buffer* b = &view.view
        cdef int64_t n_elements = 1, k, rest, offset
        cdef int i, kind = kFloat64 if b.itemsize == 8 else kInt32
        cdef vector[int] regs
        cdef ProgramColumn column
        cdef bint fours
        if b.ndim == 0:
            raise ShapeError(f"{name}: expected the batch as the first axis, got an array without axes")
        for i in range(1, b.ndim):
            n_elements *= b.shape[i]
        for register in registers:
            # -1: an input's element that is not wanted.
            if not lowest <= register < n_registers and (write or register != -1):
                raise ValueError(f"{name}: expected registers {lowest} to {n_registers - 1}, got {register}")
            regs.push_back(register)
        if <int64_t>regs.size() != n_elements:
            raise ShapeError(f"{name}: expected {n_elements} registers, one per element of an event, got {regs.size()}")
        if write or b.shape[0] != 1:
            if self.batch >= 0 and self.batch != b.shape[0]:
                raise ShapeError(f"{name}: expected {self.batch} events, as {self.one} has, got {b.shape[0]}")
            self.batch, self.one = b.shape[0], name
        self.views.append(view)
        column.stride = b.strides[0] if b.shape[0] != 1 else 0
        fours = kind == kFloat64 and b.ndim > 1 and b.shape[b.ndim - 1] == 4 and b.strides[b.ndim - 1] == 8
        k = 0
        while k < n_elements:
            rest, offset = k, 0
            for i in range(b.ndim - 1, 0, -1):
                offset += rest % b.shape[i] * b.strides[i]
                rest //= b.shape[i]
            column.data = <char*>b.buf + offset
            column.kind = kind
            column.reg[0] = regs[k]
            if fours and k % 4 == 0 and regs[k] >= 0 and regs[k + 1] >= 0 and regs[k + 2] >= 0 and regs[k + 3] >= 0:
                column.kind = kFourFloat64
                for i in range(1, 4):
                    column.reg[i] = regs[k + i]
                k += 3
            if regs[k] >= 0:
                self.columns.push_back(column)
            k += 1
        return 0


cdef class _Code:
    """The instructions, copied and checked: nobody can change them after the checks."""

    cdef int set_up(self, object constants, object n_registers) except -1:
        cdef _View view = _view(constants, "constants", False, "d")
        cdef int64_t i
        if view.view.ndim != 1:
            raise ShapeError(f"constants: expected one axis, got {view.view.ndim}")
        if not 0 <= n_registers <= MAX_REGISTERS:
            raise ValueError(f"n_registers: expected 0 to {MAX_REGISTERS}, got {n_registers}")
        self.n_registers = n_registers
        if view.view.shape[0] > self.n_registers:
            raise ValueError(f"constants: expected at most n_registers = {self.n_registers} of them, "
                             f"got {view.view.shape[0]}")
        for i in range(view.view.shape[0]):
            self.constants.push_back((<double*>(<char*>view.view.buf + i * view.view.strides[0]))[0])
        self.written.assign(self.n_registers, 0)
        for i in range(<int64_t>self.constants.size()):
            self.written[i] = 1
        return 0

    cdef int read(self, object code) except -1:
        """Check the instructions in order; `written` says which registers have values before the first one."""
        cdef _View view = _view(code, "code", False, "i")
        cdef int64_t i, at = 0, size
        if view.view.ndim != 1:
            raise ShapeError(f"code: expected one axis, got {view.view.ndim}")
        size = view.view.shape[0]
        for i in range(size):
            self.words.push_back((<int*>(<char*>view.view.buf + i * view.view.strides[0]))[0])
        while at < size:
            at = self.read_instruction(at, size)
        return 0

    cdef int64_t read_instruction(self, int64_t at, int64_t size) except -1:
        cdef ProgramStep step
        cdef const OpInfo* info
        cdef int64_t i, end
        cdef int k, register
        if size - at < 3:
            raise ValueError(f"code[{at}]: expected op, n_in and n_out, got the end of the code")
        step.op, step.n_in, step.n_out = self.words[at], self.words[at + 1], self.words[at + 2]
        if not 0 <= step.op < kOpCount:
            raise ValueError(f"code[{at}]: expected an op below {kOpCount}, got {step.op}")
        info = kOpCatalog + step.op
        if not self.arity_fits(info, step.n_in, step.n_out):
            wanted = f"{info.n_in} inputs and {info.n_out} outputs" if info.n_in >= 0 else "numbers that the op takes"
            raise ValueError(f"code[{at}]: {info.name.decode()}: expected {wanted}, got {step.n_in} inputs and "
                             f"{step.n_out} outputs")
        step.first = at + 3
        step.is_in_place = 0
        end = step.first + step.n_in + step.n_out
        if end > size:
            raise ValueError(f"code[{at}]: {info.name.decode()}: expected {step.n_in + step.n_out} registers, "
                             f"got {size - step.first}")
        for i in range(step.first, end):
            register = self.words[i]
            if i < step.first + step.n_in:
                if not 0 <= register < self.n_registers:
                    raise ValueError(f"code[{i}]: expected a register below {self.n_registers}, got {register}")
                if not self.written[register]:
                    raise ValueError(f"code[{i}]: register {register} is read before it has a value")
                continue
            if not <int>self.constants.size() <= register < self.n_registers:
                raise ValueError(f"code[{i}]: expected an output register {self.constants.size()} to "
                                 f"{self.n_registers - 1}, got {register}")
            for k in range(step.n_in):
                if self.words[step.first + k] == register:
                    step.is_in_place = 1
        for i in range(step.first + step.n_in, end):
            self.written[self.words[i]] = 1
        if info.is_adjoint:
            if step.is_in_place:
                raise ValueError(f"code[{at}]: {info.name.decode()}: expected output registers that are no inputs")
            self.n_scratch = max(self.n_scratch, 2 * (kScratchBase + kScratchPerValue * (step.n_in + step.n_out)))
        elif info.n_in < 0:
            self.n_scratch = max(self.n_scratch, kScratchBase + kScratchPerValue * (step.n_in + step.n_out))
        self.n_pointers = max(self.n_pointers, max(step.n_in, step.n_out))
        self.steps.push_back(step)
        return end

    cdef bint arity_fits(self, const OpInfo* info, int n_in, int n_out) noexcept:
        if info.n_in >= 0:
            return n_in == info.n_in and n_out == info.n_out
        return 0 <= n_in <= <int>MAX_VALUES and 0 <= n_out <= <int>MAX_VALUES and info.accepts(n_in, n_out)


cdef vector[ProgramDraw] add_draws(_Code program, object draws) except *:
    """Check the registers of random numbers and return them in pairs."""
    cdef vector[ProgramDraw] pairs
    cdef ProgramDraw pair
    cdef int lowest = <int>program.constants.size()
    registers = list(draws)
    for k in range(0, len(registers), 2):
        pair.k = k // 2
        for i in range(2):
            register = registers[k + i] if k + i < len(registers) else -1
            if register != -1 and not lowest <= register < program.n_registers:
                raise ValueError(f"draws: expected registers {lowest} to {program.n_registers - 1}, got {register}")
            pair.reg[i] = register
            if register >= 0:
                program.written[register] = 1
        if pair.reg[0] >= 0 or pair.reg[1] >= 0:
            pairs.push_back(pair)
    return pairs


def run_program(code, constants, n_registers, inputs, outputs, draws=(), seed=0, offset=0):
    """Run a program over a batch of events.

    Everything is checked before anything runs. The GIL is released, and pieces of the batch go to threads.

    Parameters
    ----------
    code : numpy.ndarray
        int32: per instruction the op's number, the numbers of its inputs and outputs, then their registers. Outputs may
        be inputs as well; of a register that is an output twice, the value is one of the two.
    constants : numpy.ndarray
        float64: what registers 0 and up hold. No instruction or input may write to these.
    n_registers : int
        How many registers there are, at most 65536.
    inputs : list of (numpy.ndarray, list of int)
        float64 or int32 arrays of shape (batch or 1, ...) with any strides, and a register for each element of an event
        in row-major order; -1 leaves an element out.
    outputs : list of (numpy.ndarray, list of int)
        The same for results, of shape (batch, ...), written in place. A value that int32 cannot hold becomes -2^31.
    draws : list of int, optional
        A register for each random number of an event, as `madspace.random.uniform` makes them; -1 leaves one out.
    seed, offset : int, optional
        Of these numbers; offset is the number of the first event.

    Raises
    ------
    ShapeError
        If batch sizes differ or the number of registers is not that of the elements.
    DTypeError
        If an array is neither float64 nor int32, or has another byte order.
    ValueError
        If the code is malformed, a register is out of range or read before it has a value, an output is read-only.
    """
    cdef _Code program = _Code.__new__(_Code)
    cdef _Operands reads = _Operands.__new__(_Operands), writes = _Operands.__new__(_Operands)
    cdef int lowest, k
    cdef size_t i
    cdef int64_t n
    cdef Program args
    cdef atomic[int] out_of_memory
    cdef vector[ProgramDraw] pairs
    program.set_up(constants, n_registers)
    lowest = <int>program.constants.size()
    for index, (array, registers) in enumerate(inputs):
        reads.add(f"inputs[{index}]", array, registers, lowest, program.n_registers, False)
    for i in range(reads.columns.size()):
        for k in range(4 if reads.columns[i].kind == kFourFloat64 else 1):
            program.written[reads.columns[i].reg[k]] = 1
    pairs = add_draws(program, draws)
    program.read(code)
    writes.batch, writes.one = reads.batch, reads.one
    for index, (array, registers) in enumerate(outputs):
        writes.add(f"outputs[{index}]", array, registers, 0, program.n_registers, True)
    for i in range(writes.columns.size()):
        for k in range(4 if writes.columns[i].kind == kFourFloat64 else 1):
            if not program.written[writes.columns[i].reg[k]]:
                raise ValueError(f"outputs: register {writes.columns[i].reg[k]} has no value")
    n = writes.batch
    if n <= 0 or writes.columns.empty():
        return
    args.registers, args.steps, args.constants = program.words.data(), program.steps.data(), program.constants.data()
    args.inputs, args.outputs = reads.columns.data(), writes.columns.data()
    args.n_steps, args.n_inputs, args.n_outputs = program.steps.size(), reads.columns.size(), writes.columns.size()
    args.draws, args.n_draws, args.seed, args.offset = pairs.data(), pairs.size(), seed, offset
    args.n_constants, args.n_registers = lowest, program.n_registers
    args.n_scratch, args.n_pointers = program.n_scratch, program.n_pointers
    args.out_of_memory = &out_of_memory
    out_of_memory.store(0)
    with nogil:
        run_events(_run.run_, &args, n)
    if out_of_memory.load():
        raise MemoryError(f"n_registers: no memory for the {n_registers} registers of a thread")
