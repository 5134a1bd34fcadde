// A program that was checked once and runs on raw pointers: what is left for each call is where its arrays are.
#pragma once

#include <atomic>
#include <new>
#include <vector>

#include "program.h"

namespace madspace {

// An array of the program, with the register of each element of an event; -1: not wanted.
struct PreparedArray {
    std::vector<int> registers;
    int is_int;  // int32, else float64
    int fours;   // the last axis of an event has four elements
};

// Where an array is; steps in bytes.
struct PreparedPlace {
    char* data;
    long long event_stride, element_stride;
};

struct Prepared {
    Program program = {};  // without columns
    std::vector<PreparedArray> inputs, outputs;
};

struct PreparedCall {
    std::vector<ProgramColumn> inputs, outputs;
    std::atomic<int> out_of_memory{0};
    Program program;
};

inline void add_columns(const PreparedArray& array, const PreparedPlace& place, std::vector<ProgramColumn>* columns) {
    const std::vector<int>& r = array.registers;
    for (std::size_t k = 0; k < r.size(); ++k) {
        ProgramColumn column = {};
        column.data = place.data + static_cast<long long>(k) * place.element_stride;
        column.stride = place.event_stride;
        column.kind = array.is_int ? kInt32 : kFloat64;
        column.reg[0] = r[k];
        const bool is_four = array.fours && !array.is_int && k % 4 == 0 && k + 3 < r.size() &&
                             place.element_stride == sizeof(double) && r[k] >= 0 && r[k + 1] >= 0 && r[k + 2] >= 0 &&
                             r[k + 3] >= 0;
        if (is_four) {
            column.kind = kFourFloat64;
            for (int i = 1; i < 4; ++i) column.reg[i] = r[k + static_cast<std::size_t>(i)];
            k += 3;
        }
        if (column.reg[0] >= 0) columns->push_back(column);
    }
}

// Fills in the call; false where there is no memory left.
inline bool place_arrays(const Prepared& prepared, const PreparedPlace* inputs, const PreparedPlace* outputs,
                         PreparedCall* call) noexcept {
    try {
        for (std::size_t i = 0; i < prepared.inputs.size(); ++i)
            add_columns(prepared.inputs[i], inputs[i], &call->inputs);
        for (std::size_t i = 0; i < prepared.outputs.size(); ++i)
            add_columns(prepared.outputs[i], outputs[i], &call->outputs);
    } catch (const std::bad_alloc&) {
        return false;
    }
    call->program = prepared.program;
    call->program.inputs = call->inputs.data();
    call->program.outputs = call->outputs.data();
    call->program.n_inputs = static_cast<long long>(call->inputs.size());
    call->program.n_outputs = static_cast<long long>(call->outputs.size());
    call->program.out_of_memory = &call->out_of_memory;
    return true;
}

}  // namespace madspace
