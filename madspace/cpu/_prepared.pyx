"""Programs on the CPU that are checked once and run on raw pointers, without the interpreter."""
from libc.stdint cimport int64_t
from libcpp.atomic cimport atomic

from madspace.cpu._lanes cimport HostFunction, host_function, run_events
from madspace.cpu._programs cimport Program, _Code


cdef extern from "../cpu/prepared.h" namespace "madspace" nogil:
    cdef cppclass PreparedCall:
        Program program
        atomic[int] out_of_memory
    bint place_arrays(const Prepared& prepared, const PreparedPlace* inputs, const PreparedPlace* outputs,
                      PreparedCall* call)


cdef HostFunction on_host = host_function("program")


cdef PreparedProgram prepare(object code, object constants, object n_registers, list inputs, list outputs):
    cdef PreparedProgram made = PreparedProgram.__new__(PreparedProgram)
    cdef _Code checked = _Code.__new__(_Code)
    cdef PreparedArray array
    cdef Program* program = &made.prepared.program
    checked.set_up(constants, n_registers)
    lowest = checked.constants.size()
    for registers, is_int, fours in inputs:
        array = prepared_array(registers, is_int, fours)
        for register in registers:
            if register != -1:
                if not lowest <= register < checked.n_registers:
                    raise ValueError(
                        f"inputs: expected registers {lowest} to {checked.n_registers - 1}, got {register}")
                checked.written[<size_t>register] = 1
        made.prepared.inputs.push_back(array)
    checked.read(code)
    for registers, is_int, fours in outputs:
        array = prepared_array(registers, is_int, fours)
        for register in registers:
            if not 0 <= register < checked.n_registers or not checked.written[<size_t>register]:
                raise ValueError(f"outputs: expected registers that have a value, got {register}")
        made.prepared.outputs.push_back(array)
    made.code = checked
    program.registers, program.steps, program.constants = (
        checked.words.data(), checked.steps.data(), checked.constants.data())
    program.n_steps = checked.steps.size()
    program.n_constants, program.n_registers = <int>checked.constants.size(), checked.n_registers
    program.n_scratch, program.n_pointers = checked.n_scratch, checked.n_pointers
    return made


cdef PreparedArray prepared_array(object registers, object is_int, object fours) except *:
    cdef PreparedArray array
    for register in registers:
        array.registers.push_back(register)
    array.is_int, array.fours = is_int, fours
    return array


cdef bint run_prepared(const Prepared* prepared, const PreparedPlace* inputs, const PreparedPlace* outputs,
                       int64_t n) noexcept nogil:
    cdef PreparedCall call
    if n <= 0:
        return True
    if not place_arrays(prepared[0], inputs, outputs, &call):
        return False
    run_events(on_host.run_, &call.program, n)
    return call.out_of_memory.load() == 0
