// A C++ program that embeds Python for madspace alone: a compiled function comes from a file, and threads that Python
// does not know run it, without the GIL.
//
//   embedding PYTHON PROGRAM    PYTHON: the interpreter of an environment that has madspace, in whose place this runs
//                               PROGRAM: a file with what madspace.Program.to_bytes() gave; one number in, one out
#include <Python.h>
#include <madspace/madspace.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 4, kRounds = 50;
constexpr std::int64_t kEvents = 2000;
std::atomic<int> failures{0};

void expect(int status, int wanted = MS_OK) {
    if (status == wanted) return;
    std::fprintf(stderr, "expected %s, got %s: %s\n", ms_status_name(wanted), ms_status_name(status), ms_last_error());
    ++failures;
}

bool start_python(const char* executable) {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, executable);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return !PyStatus_Exception(status);
}

// Runs the program on numbers of its own, again and again; the sum of the last results.
void work(ms_device cpu, ms_program program, int number, double* sum) {
    void *in = nullptr, *out = nullptr;
    for (int round = 0; round < kRounds; ++round) {
        expect(ms_alloc(cpu, kEvents * sizeof(double), nullptr, &in));
        expect(ms_alloc(cpu, kEvents * sizeof(double), nullptr, &out));
        if (in == nullptr || out == nullptr) return;
        double* x = static_cast<double*>(in);
        for (std::int64_t i = 0; i < kEvents; ++i) x[i] = (static_cast<double>(i) + 0.5) / kEvents + number;
        const ms_program_array inputs = {in, sizeof(double), 0}, outputs = {out, sizeof(double), 0};
        expect(ms_program_run(program, cpu, kEvents, &inputs, &outputs, nullptr));
        *sum = 0;
        for (std::int64_t i = 0; i < kEvents; ++i) *sum += static_cast<const double*>(out)[i];
        expect(ms_free(cpu, in, nullptr));
        expect(ms_free(cpu, out, nullptr));
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s PYTHON PROGRAM\n", argv[0]);
        return 2;
    }
    std::ifstream file(argv[2], std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!start_python(argv[1])) return 2;
    if (ms_import() < 0) {
        PyErr_Print();
        return 2;
    }
    ms_device cpu = nullptr;
    ms_program program = nullptr;
    expect(ms_device_get(MS_DEVICE_CPU, 0, &cpu));
    expect(ms_program_from_bytes(bytes.data(), bytes.size(), &program));
    if (failures > 0) return 1;

    PyThreadState* state = PyEval_SaveThread();  // nobody has the GIL while the threads work
    std::vector<double> sums(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, cpu, program, i, &sums[static_cast<std::size_t>(i)]);
    for (std::thread& thread : threads) thread.join();
    expect(ms_program_release(program));  // takes the GIL itself
    expect(ms_program_release(program), MS_ERROR_HANDLE);
    PyEval_RestoreThread(state);
    for (const double sum : sums) std::printf("%.12g\n", sum);

    // When the interpreter is gone, what needs it says so; host memory is still there.
    if (Py_FinalizeEx() < 0) return 1;
    void* ptr = nullptr;
    expect(ms_program_from_bytes(bytes.data(), bytes.size(), &program), MS_ERROR_SHUTDOWN);
    expect(ms_alloc(cpu, 64, nullptr, &ptr));
    expect(ms_free(cpu, ptr, nullptr));
    std::printf("%s\n", failures == 0 ? "done" : "failed");
    return failures == 0 ? 0 : 1;
}
