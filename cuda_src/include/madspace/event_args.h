// What a per-event kernel gets, by value: the same bytes for a GPU launch and a host call. Every field has 8 bytes, so
// the caller lays it out as one array: n, inputs, input strides, outputs, output strides, constant.
#pragma once

#include "portable.h"

MS_BEGIN_NAMESPACE

template <int kInputs, int kOutputs>
struct EventArgs {
    static constexpr int kLastOutput = kOutputs - 1;

    i64 n;                         // events
    const double* input[kInputs];  // one double per event
    i64 input_stride[kInputs];     // in doubles; 0 broadcasts
    double* output[kOutputs];      // four doubles per event, the last one (det) one
    i64 output_stride[kOutputs];   // in doubles
    double constant;
};

MS_END_NAMESPACE
