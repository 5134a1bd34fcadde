// A program as its executor gets it, already checked (_programs.pyx): straight-line code over scalar registers.
#pragma once

#include <atomic>

namespace madspace {

// One op: registers[first ..] are its inputs, then its outputs.
struct ProgramStep {
    int op, n_in, n_out;
    int is_in_place;  // whether an output is an input as well
    long long first;
};

enum ProgramKind { kFloat64, kInt32, kFourFloat64 };

// An element of an array and the register that it goes with; kFourFloat64 are four adjacent elements.
struct ProgramColumn {
    char* data;
    long long stride;  // in bytes from event to event; 0 broadcasts
    int kind;
    int reg[4];
};

// Numbers 2 k and 2 k + 1 of an event, drawn instead of read; a register of -1 is not wanted.
struct ProgramDraw {
    unsigned long long k;
    int reg[2];
};

struct Program {
    const int* registers;
    const ProgramStep* steps;
    const double* constants;
    const ProgramColumn* inputs;
    const ProgramColumn* outputs;
    const ProgramDraw* draws;
    long long n_steps, n_inputs, n_outputs, n_draws;
    unsigned long long seed, offset;  // of the draws; offset: number of the first event
    int n_constants, n_registers;
    int n_scratch;   // rows that the hungriest list step may need
    int n_pointers;  // the most inputs or outputs of any step
    std::atomic<int>* out_of_memory;
};

// Rows that a list step may take for what it computes, per input and output.
constexpr int kScratchPerValue = 48;
constexpr int kScratchBase = 64;

}  // namespace madspace
