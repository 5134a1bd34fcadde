// A program as the GPU gets it: by value, everything that one launch needs. The host lays it out
// (madspace/phasespace/_program_op.pyx).
//
// Values live in a file of rows in shared memory, one row per register with one float64 per thread of the block. The
// body holds, in this order:
//   code          in halves of words, per step: op | n_in << 10 | n_out << 21, then the rows of its inputs and its
//                 outputs, in bytes from the beginning of the file; among them stores, kStoreOp | section << 10 |
//                 column << 21, without rows
//   constants     one word each: the contents of the first rows
//   inputs        columns of float64, columns of int32, fours
//   outputs       columns of float64, columns of int32, fours; columns of float64 and of int32 that only event 0 stores
//   draws         random numbers 2 k and 2 k + 1 of an event, in one word: k << 32 | row << 16 | row; row 0xffff: not
//   wanted
// A column is one element of an array in every event, in three words: address, bytes from event to event, row. An input
// may be a number: its bits are in the second word then, and bit 32 of the third one is set. A four is four adjacent
// elements in four words: address, bytes from event to event, bytes from element to element or 0 where they are one
// double2 after another, 16-bit rows. A launch has at most kMostEvents, and one where a column has a stride of 2^31
// bytes or more.
#pragma once

#include "madspace/philox.h"

MS_BEGIN_NAMESPACE

enum ProgramLimits : unsigned {
    kStoreOp = 1023,          // an op has 10 bits in the code
    kMaxProgramValues = 2047  // the inputs, or outputs, of a step have 11, and so have columns that are stored
};

constexpr int kMostEvents = 1 << 30;

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
    int n;  // events
    unsigned n_steps;
    u64 offset;  // number of the first event, for random numbers
    PhiloxKeys keys;
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
