// Libraries, kernels, launches.
#include <algorithm>
#include <cstring>

#include "fake.h"

namespace fake {

constexpr int kMaxThreads = 1024, kDefaultShared = 49152, kOptInShared = 232448;
constexpr int kAttrMaxThreads = 0, kAttrRegisters = 4, kAttrPtx = 5, kAttrBinary = 6, kAttrMaxShared = 8;

static Kernel* make_kernel(Library* library, const std::string& name) {
    Kernel*& kernel = library->kernels[name];
    if (kernel) return kernel;
    kernel = add(new Kernel);
    kernel->library = library;
    kernel->name = name;
    kernel->params_known = image_params(library->image, name, &kernel->params);
    return kernel;
}

// The parameter layout: what the image says, else what the registered function was given with.
static const std::vector<Param>* params_of(Kernel* kernel) {
    if (kernel->params_known) return &kernel->params;
    auto it = state().registry.find(kernel->name);
    return it == state().registry.end() ? nullptr : &it->second.params;
}

static int attribute(Kernel* kernel, int device, int which) {
    auto it = kernel->attributes.find({device, which});
    if (it != kernel->attributes.end()) return it->second;
    switch (which) {
        case kAttrMaxThreads:
            return kMaxThreads;
        case kAttrRegisters:
            return 32;
        case kAttrPtx:
        case kAttrBinary:
            return 90;
        case kAttrMaxShared:
            return kDefaultShared;
        default:
            return 0;
    }
}

// A CUkernel may stand where a CUfunction is asked for.
static Kernel* kernel_of(void* handle, Context** context) {
    auto it = state().objects.find(handle);
    *context = nullptr;
    if (it == state().objects.end() || it->second->kind != kFunction) return find<Kernel>(handle);
    Function* function = find<Function>(handle);
    if (!function) return nullptr;
    *context = function->context;
    return function->kernel;
}

// Words of a parameter that point into device memory are looked at when the kernel runs.
static void inspect_params(const std::string& bytes, const std::string& name) {
    std::string what = "kernel " + name;
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        uint64_t word;
        std::memcpy(&word, bytes.data() + i, 8);
        Memory* memory = memory_at(word);
        if (memory && memory->size) touch(word, 1, what.c_str());
    }
}

struct Shape {
    unsigned grid[3], block[3], shared;
};

static int launch(Call& call, void* handle, const Shape& shape, void* stream_handle, void** params) {
    if (call.code) return call.code;
    Context* context;
    Kernel* kernel = kernel_of(handle, &context);
    Stream* stream = find_stream(stream_handle);
    if (!kernel || !stream || (context && context != stream->context)) return call(kInvalidHandle);
    int device = stream->context->device;
    uint64_t threads = 1ull * shape.block[0] * shape.block[1] * shape.block[2];
    bool fits = threads >= 1 && threads <= kMaxThreads && shape.block[2] <= 64 && shape.grid[0] && shape.grid[1] &&
                shape.grid[2] && shape.grid[1] <= 65535 && shape.grid[2] <= 65535;
    if (!fits || shape.shared > static_cast<unsigned>(attribute(kernel, device, kAttrMaxShared)))
        return call(kInvalidValue);

    std::string bytes;
    std::vector<size_t> offsets;
    if (const std::vector<Param>* layout = params_of(kernel))
        for (size_t i = 0; i < layout->size(); i++) {
            const Param& param = (*layout)[i];
            if (!params || !params[i]) return call(kInvalidValue);
            offsets.push_back(param.offset);
            bytes.resize(std::max(bytes.size(), param.offset + param.size));
            std::memcpy(&bytes[param.offset], params[i], param.size);
        }
    auto it = state().registry.find(kernel->name);
    KernelFn fn = it == state().registry.end() ? nullptr : it->second.fn;
    std::string name = kernel->name;
    int code = submit(stream, 0, [=]() mutable {
        if (!kernel->live) fault("launch of a kernel whose library was unloaded: " + name);
        inspect_params(bytes, name);
        if (!fn) return;
        std::string copy = bytes;  // a graph launches this again
        std::vector<void*> pointers;
        for (size_t offset : offsets) pointers.push_back(&copy[offset]);
        fn(pointers.data(), shape.grid, shape.block);
    });
    if (!code && stream->capture) {
        auto launched = std::make_shared<Launched>();
        launched->function = handle;
        std::memcpy(launched->grid, &shape, sizeof shape);
        launched->values = bytes;
        for (size_t offset : offsets) launched->params.push_back(&launched->values[offset]);
        stream->capture->graph->nodes.back()->launched = launched;
    }
    return call(code);
}

static const char* name_for_log(void* handle) {
    auto it = state().objects.find(handle);
    if (it == state().objects.end()) return "?";
    if (it->second->kind == kFunction) return static_cast<Function*>(it->second)->kernel->name.c_str();
    return it->second->kind == kKernel ? static_cast<Kernel*>(it->second)->name.c_str() : "?";
}
static std::string text(unsigned x, unsigned y, unsigned z) {
    return std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z);
}

}  // namespace fake

using namespace fake;

API int cuLibraryLoadData(void** out, const void* code, const int* options, void** values, unsigned n, const int*,
                          void**, unsigned) {
    Call call("cuLibraryLoadData", kInit);
    if (call.code) return call.code;
    if (int code = capture_unsafe()) return call(code);
    std::string image;
    if (!code || !read_image(code, &image)) {
        // Options 5 and 6: the error log of the PTX compiler and its size.
        for (unsigned i = 0; i < n; i++)
            if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "fake: not an image");
        // Driver 580 takes it all the same and tells who asks for a kernel.
        Library* none = add(new Library);
        none->is_image = false;
        *out = none;
        return call.code;
    }
    Library* library = add(new Library);
    library->image = std::move(image);
    *out = library;
    return call.code;
}
API int cuLibraryUnload(void* handle) {
    Call call("cuLibraryUnload", kInit, {{"library", handle}});
    if (call.code) return call.code;
    Library* library = find<Library>(handle);
    if (!library) return call(kInvalidHandle);
    if (int code = capture_unsafe()) return call(code);
    if (used_by_graphs(library)) fault("a library was unloaded whose kernels a graph has: " + hex(handle));
    for (auto& kernel : library->kernels) {
        for (auto& function : kernel.second->functions) drop(function.second);
        drop(kernel.second);
    }
    drop(library);
    return call.code;
}
API int cuLibraryGetKernel(void** out, void* handle, const char* name) {
    Call call("cuLibraryGetKernel", kInit, {{"library", handle}, {"name", name}});
    if (call.code) return call.code;
    Library* library = find<Library>(handle);
    if (!library) return call(kInvalidHandle);
    if (!library->is_image) return call(kInvalidImage);
    if (!*name) return call(kNotFound);
    if (!state().accept_all && !image_has_kernel(library->image, name)) return call(kNotFound);
    *out = make_kernel(library, name);
    return call.code;
}
API int cuLibraryGetKernelCount(unsigned* n, void* handle) {
    Call call("cuLibraryGetKernelCount", kInit, {{"library", handle}});
    if (call.code) return call.code;
    Library* library = find<Library>(handle);
    if (!library) return call(kInvalidHandle);
    *n = static_cast<unsigned>(image_kernels(library->image).size());
    return call.code;
}
API int cuLibraryEnumerateKernels(void** out, unsigned n, void* handle) {
    Call call("cuLibraryEnumerateKernels", kInit, {{"library", handle}, {"n", n}});
    if (call.code) return call.code;
    Library* library = find<Library>(handle);
    if (!library) return call(kInvalidHandle);
    std::vector<std::string> names = image_kernels(library->image);
    for (unsigned i = 0; i < n && i < names.size(); i++) out[i] = make_kernel(library, names[i]);
    return call.code;
}
#define KERNEL_CALL(name)                                        \
    Call call(#name, kInit, {{"kernel", name_for_log(handle)}}); \
    if (call.code) return call.code;                             \
    Context* context;                                            \
    Kernel* kernel = kernel_of(handle, &context);                \
    if (!kernel) return call(kInvalidHandle)

API int cuKernelGetName(const char** name, void* handle) {
    KERNEL_CALL(cuKernelGetName);
    *name = kernel->name.c_str();
    return call.code;
}
API int cuFuncGetName(const char** name, void* handle) {
    KERNEL_CALL(cuFuncGetName);
    *name = kernel->name.c_str();
    return call.code;
}
API int cuKernelGetFunction(void** out, void* handle) {
    KERNEL_CALL(cuKernelGetFunction);
    if (!current()) return call(kInvalidContext);
    if (int code = capture_unsafe()) return call(code);
    Function*& function = kernel->functions[current()];
    if (!function) {
        function = add(new Function);
        function->kernel = kernel;
        function->context = current();
    }
    *out = function;
    return call.code;
}
API int cuKernelGetLibrary(void** out, void* handle) {
    KERNEL_CALL(cuKernelGetLibrary);
    *out = kernel->library;
    return call.code;
}
API int cuFuncLoad(void* handle) {
    KERNEL_CALL(cuFuncLoad);
    if (int code = capture_unsafe()) return call(code);
    return call(current() ? kSuccess : kInvalidContext);
}
API int cuFuncIsLoaded(int* loaded, void* handle) {
    KERNEL_CALL(cuFuncIsLoaded);
    *loaded = 1;
    return call.code;
}

static int param_info(Call& call, Kernel* kernel, size_t index, size_t* offset, size_t* size) {
    const std::vector<Param>* layout = params_of(kernel);
    if (!layout || index >= layout->size()) return call(kInvalidValue);
    *offset = (*layout)[index].offset;
    if (size) *size = (*layout)[index].size;
    return call(kSuccess);
}
API int cuKernelGetParamInfo(void* handle, size_t index, size_t* offset, size_t* size) {
    KERNEL_CALL(cuKernelGetParamInfo);
    if (!current()) return call(kInvalidContext);  // so does driver 580
    return param_info(call, kernel, index, offset, size);
}
API int cuFuncGetParamInfo(void* handle, size_t index, size_t* offset, size_t* size) {
    KERNEL_CALL(cuFuncGetParamInfo);
    return param_info(call, kernel, index, offset, size);
}

static int set_attribute(Call& call, Kernel* kernel, int device, int which, int value) {
    bool allowed = which == kAttrMaxShared ? value >= 0 && value <= kOptInShared : which >= 9 && which <= 15;
    if (!allowed) return call(kInvalidValue);
    kernel->attributes[{device, which}] = value;
    return call(kSuccess);
}
API int cuKernelGetAttribute(int* value, int which, void* handle, int device) {
    KERNEL_CALL(cuKernelGetAttribute);
    if (device < 0 || device >= state().device_count) return call(kInvalidDevice);
    if (which < 0 || which > 15) return call(kInvalidValue);
    *value = attribute(kernel, device, which);
    return call.code;
}
API int cuKernelSetAttribute(int which, int value, void* handle, int device) {
    KERNEL_CALL(cuKernelSetAttribute);
    if (device < 0 || device >= state().device_count) return call(kInvalidDevice);
    return set_attribute(call, kernel, device, which, value);
}
API int cuFuncGetAttribute(int* value, int which, void* handle) {
    KERNEL_CALL(cuFuncGetAttribute);
    if (!current()) return call(kInvalidContext);
    *value = attribute(kernel, current()->device, which);
    return call.code;
}
API int cuFuncSetAttribute(void* handle, int which, int value) {
    KERNEL_CALL(cuFuncSetAttribute);
    return current() ? set_attribute(call, kernel, current()->device, which, value) : call(kInvalidContext);
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void* handle, int block, size_t shared) {
    KERNEL_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    if (block < 1 || block > kMaxThreads) return call(kInvalidValue);
    *n = std::min<long>(2048 / block, shared ? kOptInShared / static_cast<long>(shared) : 32);
    return call.code;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, void* handle, int block, size_t shared, unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(n, handle, block, shared);
}
API int cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void* handle, void*, size_t, int) {
    KERNEL_CALL(cuOccupancyMaxPotentialBlockSize);
    *block = kMaxThreads;
    *grid = 264;
    return call.code;
}

API int cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void* stream, void** params, void**) {
    Call call("cuLaunchKernel", kCurrent,
              {{"kernel", name_for_log(handle)},
               {"grid", text(gx, gy, gz).c_str()},
               {"block", text(bx, by, bz).c_str()},
               {"shared", shared},
               {"stream", stream}});
    return launch(call, handle, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, params);
}
// An attribute is 8 bytes that tell which, then 64 with its value.
struct LaunchAttribute {
    int id, pad;
    unsigned value[16];
};
constexpr int kCooperative = 2, kClusterDimension = 4, kProgrammaticSerialization = 6, kAttrLargeClusters = 14;
constexpr unsigned kPortableCluster = 8, kLargestCluster = 16, kBlocksAtOnce = 132 * 32;
struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    void* stream;
    const LaunchAttribute* attributes;
    unsigned n_attributes;
    const unsigned* find(int id) const {
        for (unsigned i = 0; i < n_attributes; i++)
            if (attributes[i].id == id) return attributes[i].value;
        return nullptr;
    }
};
// 0 where the grid's clusters can run.
static int refuse_clusters(const LaunchConfig* c, Kernel* kernel, int device) {
    const unsigned* cluster = c->find(kClusterDimension);
    if (!cluster) return kSuccess;
    unsigned most = attribute(kernel, device, kAttrLargeClusters) ? kLargestCluster : kPortableCluster;
    unsigned blocks = cluster[0] * cluster[1] * cluster[2];
    for (int i = 0; i < 3; i++)
        if (!cluster[i] || c->grid[i] % cluster[i]) return kInvalidValue;
    return blocks > most ? kInvalidClusterSize : kSuccess;
}
API int cuOccupancyMaxActiveClusters(int* n, void* handle, const LaunchConfig* c) {
    KERNEL_CALL(cuOccupancyMaxActiveClusters);
    if (!current()) return call(kInvalidContext);
    const unsigned* cluster = c->find(kClusterDimension);
    if (int code = refuse_clusters(c, kernel, current()->device)) return call(code);
    *n = cluster ? 132 * 2 / (cluster[0] * cluster[1] * cluster[2]) : 0;
    return call.code;
}
API int cuLaunchKernelEx(const LaunchConfig* c, void* handle, void** params, void**) {
    const unsigned* cluster = c->find(kClusterDimension);
    Call call("cuLaunchKernelEx", kCurrent,
              {{"kernel", name_for_log(handle)},
               {"grid", text(c->grid[0], c->grid[1], c->grid[2]).c_str()},
               {"block", text(c->block[0], c->block[1], c->block[2]).c_str()},
               {"shared", c->shared},
               {"stream", c->stream},
               {"attributes", c->n_attributes},
               {"cooperative", c->find(kCooperative) ? 1 : 0},
               {"early", c->find(kProgrammaticSerialization) ? 1 : 0},
               {"cluster", cluster ? text(cluster[0], cluster[1], cluster[2]).c_str() : "none"}});
    Context* context;
    if (call.code) return call.code;
    Kernel* kernel = kernel_of(handle, &context);
    if (!kernel) return call(kInvalidHandle);
    if (int code = refuse_clusters(c, kernel, current()->device)) return call(code);
    if (c->find(kCooperative) && 1ull * c->grid[0] * c->grid[1] * c->grid[2] > kBlocksAtOnce)
        return call(kCooperativeTooLarge);
    Shape shape;
    std::memcpy(&shape, c, sizeof shape);
    return launch(call, handle, shape, c->stream, params);
}
