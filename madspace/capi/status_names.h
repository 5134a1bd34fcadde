// Names of the codes in madspace.h.
#pragma once

#include "madspace/madspace.h"

namespace madspace {
namespace capi {

inline const char* name_of_status(int status) {
    switch (status) {
        case MS_OK:
            return "MS_OK";
        case MS_ERROR_ARGUMENT:
            return "MS_ERROR_ARGUMENT";
        case MS_ERROR_HANDLE:
            return "MS_ERROR_HANDLE";
        case MS_ERROR_SHAPE:
            return "MS_ERROR_SHAPE";
        case MS_ERROR_DTYPE:
            return "MS_ERROR_DTYPE";
        case MS_ERROR_DEVICE:
            return "MS_ERROR_DEVICE";
        case MS_ERROR_WORKSPACE:
            return "MS_ERROR_WORKSPACE";
        case MS_ERROR_CLOSED:
            return "MS_ERROR_CLOSED";
        case MS_ERROR_MEMORY:
            return "MS_ERROR_MEMORY";
        case MS_ERROR_CAPTURE:
            return "MS_ERROR_CAPTURE";
        case MS_ERROR_KERNEL_FAULT:
            return "MS_ERROR_KERNEL_FAULT";
        case MS_ERROR_DRIVER:
            return "MS_ERROR_DRIVER";
        case MS_ERROR_NO_DRIVER:
            return "MS_ERROR_NO_DRIVER";
        case MS_ERROR_FORK:
            return "MS_ERROR_FORK";
        case MS_ERROR_KERNEL_IMAGE:
            return "MS_ERROR_KERNEL_IMAGE";
        case MS_ERROR_COMPILE:
            return "MS_ERROR_COMPILE";
        case MS_ERROR_UNSUPPORTED:
            return "MS_ERROR_UNSUPPORTED";
        case MS_ERROR_SHUTDOWN:
            return "MS_ERROR_SHUTDOWN";
        case MS_ERROR_STREAM_SCOPE:
            return "MS_ERROR_STREAM_SCOPE";
        case MS_ERROR_PYTHON:
            return "MS_ERROR_PYTHON";
        case MS_ERROR_NOT_IMPORTED:
            return "MS_ERROR_NOT_IMPORTED";
        default:
            return "an unknown status";
    }
}

}  // namespace capi
}  // namespace madspace
