// Initialisation, symbol lookup, devices, primary contexts, error texts.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "fake.h"

namespace fake {

constexpr int kDriverVersion = 13000;
constexpr uint64_t kTotalMemory = 4ull << 30;  // small enough that "too large" is cheap to test

struct ErrorText {
    int code;
    const char* name;
    const char* text;
};
static const ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "capture attempted from a thread that did not begin it"},
    {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static const ErrorText* error_text(int code) {
    for (const ErrorText& e : kErrors)
        if (e.code == code) return &e;
    return nullptr;
}
const char* code_name(int code) {
    const ErrorText* e = error_text(code);
    return e ? e->name : "unknown code";
}

static Context* primary(int device) {
    Context*& context = state().primary[device];
    if (!context) {
        context = new Context(device);
        state().objects[context] = context;  // counted as live only while it is retained
    }
    return context;
}
static bool valid(int device) { return device >= 0 && device < state().device_count; }

}  // namespace fake

using namespace fake;

API int cuInit(unsigned flags) {
    Call call("cuInit", kNothing, {{"flags", flags}});
    if (call.code) return call.code;
    if (state().device_count == 0) return call(100);
    if (!state().pid) {
        state().pid = getpid();
        register_test_kernels();
    }
    return call(kSuccess);
}
API int cuDriverGetVersion(int* version) {
    Call call("cuDriverGetVersion", kNothing);
    if (!call.code) *version = kDriverVersion;
    return call.code;
}
API int cuGetErrorName(int code, const char** text) {
    const ErrorText* e = error_text(code);
    *text = e ? e->name : nullptr;
    return e ? kSuccess : kInvalidValue;
}
API int cuGetErrorString(int code, const char** text) {
    const ErrorText* e = error_text(code);
    *text = e ? e->text : nullptr;
    return e ? kSuccess : kInvalidValue;
}

// The newest variant of the name that this library exports; only where signatures changed does the version count.
API int cuGetProcAddress_v2(const char* symbol, void** out, int version, uint64_t, int* status) {
    static void* self = [] {
        Dl_info info;
        dladdr(reinterpret_cast<void*>(&cuInit), &info);
        return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }();
    *out = nullptr;
    std::string name = symbol ? symbol : "";
    const char* const* suffixes;
    static const char* const kNewest[] = {"_v3", "_v2", "", nullptr};
    static const char* const kOlder[] = {"_v2", "", nullptr};
    static const char* const kPlain[] = {"", nullptr};
    suffixes = name == "cuStreamGetCaptureInfo" && version < 12030 ? kOlder : kNewest;
    if (name == "cuGetProcAddress" && version < 12000) suffixes = kPlain;
    if (name == "cuCtxSynchronize" && version < 13000) suffixes = kPlain;
    if (name.compare(0, 2, "cu") == 0)
        for (; *suffixes && !*out; suffixes++) *out = dlsym(self, (name + *suffixes).c_str());
    if (status) *status = *out ? 0 : 1;
    return *out ? kSuccess : kNotFound;
}
API int cuGetProcAddress(const char* symbol, void** out, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, out, version, flags, nullptr);
}

API int cuDeviceGetCount(int* n) {
    Call call("cuDeviceGetCount", kInit);
    if (!call.code) *n = state().device_count;
    return call.code;
}
API int cuDeviceGet(int* device, int ordinal) {
    Call call("cuDeviceGet", kInit, {{"ordinal", ordinal}});
    if (call.code) return call.code;
    if (!valid(ordinal)) return call(kInvalidDevice);
    *device = ordinal;
    return call.code;
}
API int cuDeviceGetName(char* name, int size, int device) {
    Call call("cuDeviceGetName", kInit, {{"device", device}});
    if (call.code) return call.code;
    if (!valid(device)) return call(kInvalidDevice);
    std::snprintf(name, size, "Fake GPU %d", device);
    return call.code;
}
API int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
    Call call("cuDeviceGetUuid", kInit, {{"device", device}});
    if (call.code) return call.code;
    if (!valid(device)) return call(kInvalidDevice);
    for (int i = 0; i < 16; i++) uuid[i] = static_cast<unsigned char>(i == 15 ? device : 0xA0 + i);
    return call.code;
}
ALIAS(int, cuDeviceGetUuid, cuDeviceGetUuid_v2);
API int cuDeviceTotalMem_v2(size_t* bytes, int device) {
    Call call("cuDeviceTotalMem", kInit, {{"device", device}});
    if (call.code) return call.code;
    if (!valid(device)) return call(kInvalidDevice);
    *bytes = kTotalMemory;
    return call.code;
}
ALIAS(int, cuDeviceTotalMem, cuDeviceTotalMem_v2);
API int cuDeviceGetPCIBusId(char* text, int size, int device) {
    Call call("cuDeviceGetPCIBusId", kInit, {{"device", device}});
    if (call.code) return call.code;
    if (!valid(device)) return call(kInvalidDevice);
    std::snprintf(text, size, "0000:%02X:00.0", device + 1);
    return call.code;
}
API int cuDeviceGetAttribute(int* value, int attribute, int device) {
    Call call("cuDeviceGetAttribute", kInit, {{"attribute", attribute}, {"device", device}});
    if (call.code) return call.code;
    if (!valid(device)) return call(kInvalidDevice);
    if (attribute < 1 || attribute > 200) return call(kInvalidValue);
    // Numbers as on a compute capability 9.0 device; what is not listed is 0.
    static const std::map<int, int> kValues = {
        {1, 1024},      {2, 1024},   {3, 1024}, {4, 64},          {5, 2147483647}, {6, 65535},    {7, 65535},
        {8, 49152},     {9, 65536},  {10, 32},  {11, 2147483647}, {12, 65536},     {13, 1980000}, {14, 512},
        {16, 132},      {19, 1},     {31, 1},   {33, 1},          {35, 0},         {36, 3201000}, {37, 6144},
        {38, 62914560}, {39, 2048},  {40, 3},   {41, 1},          {75, 9},         {76, 0},       {78, 1},
        {81, 233472},   {82, 65536}, {83, 1},   {89, 1},          {95, 1},         {97, 232448},  {106, 32},
        {111, 1024},    {115, 1},    {120, 1}};
    auto own = state().attributes.find({device, attribute});
    auto it = kValues.find(attribute);
    *value = own != state().attributes.end() ? own->second : it == kValues.end() ? 0 : it->second;
    if (attribute == 33) *value = device + 1;
    return call.code;
}
API int cuDeviceCanAccessPeer(int* yes, int a, int b) {
    Call call("cuDeviceCanAccessPeer", kInit, {{"device", a}, {"peer", b}});
    if (call.code) return call.code;
    if (!valid(a) || !valid(b)) return call(kInvalidDevice);
    *yes = a != b;
    return call.code;
}

API int cuDevicePrimaryCtxRetain(void** out, int device) {
    Call call("cuDevicePrimaryCtxRetain", kInit, {{"device", device}});
    if (call.code) return call.code;
    if (!valid(device)) return call(kInvalidDevice);
    Context* context = primary(device);
    if (context->retained++ == 0) {
        context->live = true;
        state().live[kContext]++;
    }
    *out = context;
    return call.code;
}
API int cuDevicePrimaryCtxRelease_v2(int device) {
    Call call("cuDevicePrimaryCtxRelease", kInit, {{"device", device}});
    if (call.code) return call.code;
    if (!valid(device) || primary(device)->retained == 0) return call(kInvalidContext);
    Context* context = primary(device);
    if (--context->retained == 0) {
        drain_context(context);
        drop(context);
    }
    return call.code;
}
ALIAS(int, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    Call call("cuDevicePrimaryCtxGetState", kInit, {{"device", device}});
    if (call.code) return call.code;
    if (!valid(device)) return call(kInvalidDevice);
    *flags = 0;
    *active = primary(device)->retained > 0;
    return call.code;
}

API int cuCtxGetCurrent(void** out) {
    Call call("cuCtxGetCurrent", kInit);
    if (!call.code) *out = context_stack().empty() ? nullptr : context_stack().back();
    return call.code;
}
API int cuCtxSetCurrent(void* handle) {
    Call call("cuCtxSetCurrent", kInit, {{"context", handle}});
    if (call.code) return call.code;
    auto& stack = context_stack();
    Context* context = nullptr;
    if (handle && !(context = find<Context>(handle))) return call(kInvalidContext);
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
    return call.code;
}
API int cuCtxPushCurrent_v2(void* handle) {
    Call call("cuCtxPushCurrent", kInit, {{"context", handle}});
    if (call.code) return call.code;
    Context* context = find<Context>(handle);
    if (!context) return call(kInvalidContext);
    context_stack().push_back(context);
    return call.code;
}
ALIAS(int, cuCtxPushCurrent, cuCtxPushCurrent_v2);
API int cuCtxPopCurrent_v2(void** out) {
    Call call("cuCtxPopCurrent", kInit);
    if (call.code) return call.code;
    auto& stack = context_stack();
    if (stack.empty()) {
        fault("context popped from an empty stack");
        return call(kInvalidContext);
    }
    if (out) *out = stack.back();
    stack.pop_back();
    return call.code;
}
ALIAS(int, cuCtxPopCurrent, cuCtxPopCurrent_v2);
API int cuCtxGetDevice(int* device) {
    Call call("cuCtxGetDevice", kCurrent);
    if (!call.code) *device = current()->device;
    return call.code;
}
API int cuCtxGetId(void* handle, unsigned long long* id) {
    Call call("cuCtxGetId", kInit, {{"context", handle}});
    if (call.code) return call.code;
    Context* context = handle ? find<Context>(handle) : current();
    if (!context) return call(kInvalidContext);
    *id = context->device + 1;
    return call.code;
}
static int synchronize(Call& call, Context* context) {
    if (call.code) return call.code;
    if (context_captures(context)) {
        capture_unsafe();
        return call(kCaptureUnsupported);
    }
    drain_context(context);
    sweep_pools();
    return call.code;
}
API int cuCtxSynchronize() {
    Call call("cuCtxSynchronize", kCurrent);
    return synchronize(call, current());
}
API int cuCtxSynchronize_v2(void* handle) {
    Call call("cuCtxSynchronize", kInit, {{"context", handle}});
    if (call.code) return call.code;
    Context* context = find<Context>(handle);
    return context ? synchronize(call, context) : call(kInvalidContext);
}
API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    Call call("cuCtxGetStreamPriorityRange", kCurrent);
    if (call.code) return call.code;
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return call.code;
}
API int cuCtxEnablePeerAccess(void* peer, unsigned flags) {
    Call call("cuCtxEnablePeerAccess", kCurrent, {{"peer", peer}, {"flags", flags}});
    if (call.code) return call.code;
    return call(find<Context>(peer) ? kSuccess : kInvalidContext);
}
API int cuProfilerStart() {
    Call call("cuProfilerStart", kCurrent);
    return call.code;
}
API int cuProfilerStop() {
    Call call("cuProfilerStop", kCurrent);
    return call.code;
}
