// A program as the GPU gets it: by value, everything that one launch needs. The host lays it out
// (madspace/phasespace/_program_op.pyx).
//
// Values live in a file of rows in shared memory, one row per register with one float64 per thread of the block. The
// body holds, in this order:
//   code          in halves of words, per step: op | n_in << 8 | n_out << 20, then the rows of its inputs and its
//                 outputs, in bytes from the beginning of the file
//   constants     one word each: the contents of the first rows
//   inputs        columns of float64, columns of int32, fours
//   outputs       columns of float64, columns of int32, fours; columns of float64 and of int32 that only event 0 stores
//   draws         random numbers 2 k and 2 k + 1 of an event, in one word: k << 32 | row << 16 | row; row 0xffff: not
//   wanted
// A column is one element of an array in every event, in three words: address, bytes from event to event, row. An input
// without an address is a number: its bits are in the second word. A four is four adjacent elements in four words:
// address, bytes from event to event, bytes from element to element or 0 where they are one double2 after another,
// 16-bit rows.
#pragma once

#include "madspace/portable.h"

MS_BEGIN_NAMESPACE

enum ProgramLimits : unsigned {
    kMaxProgramOp = 255,      // an op has 8 bits in the code
    kMaxProgramValues = 4095  // the inputs, or outputs, of a step have 12
};

enum ProgramSection {
    kConstants,
    kInputs,
    kIntInputs,
    kFourInputs,
    kOutputs,
    kIntOutputs,
    kFourOutputs,
    kOnceOutputs,
    kOnceIntOutputs,
    kDraws,
    kProgramSections
};

struct ProgramRange {
    unsigned at, n;  // first word in the body, number of constants, columns or fours
};

struct ProgramHead {
    i64 n;             // events
    u64 seed, offset;  // of random numbers; offset: number of the first event
    unsigned n_steps, unused;
    ProgramRange section[kProgramSections];
};

constexpr int kColumnWords = 3, kFourWords = 4;

template <int kBytes>
struct ProgramArgs {
    ProgramHead head;
    u64 body[(kBytes - sizeof(ProgramHead)) / sizeof(u64)];
};

// What every device takes as parameters of a kernel, and what it takes since compute capability 7.0 with CUDA 12.1.
constexpr int kSmallProgram = 4096, kLargeProgram = 32760;

MS_END_NAMESPACE
