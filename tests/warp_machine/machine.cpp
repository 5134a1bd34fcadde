// Fibers, their scheduler, and meetings.
#include "machine.h"

// Saves the registers that a call must keep on the old stack and takes them from the new one.
asm(R"(
.text
.globl machine_switch
machine_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");
extern "C" void machine_switch(void** save, void* to);

namespace machine {

Dim3 thread_index, block_index, block_size, grid_size;
Fiber* current;
uint64_t progress;
std::string problem;

namespace {

constexpr unsigned kMaxThreads = 1024;
// Rounds over all threads without anything happening, after which they wait for ever.
constexpr unsigned kMaxIdleRounds = 4;

void* main_stack;
std::vector<Fiber> fibers;
Meeting warps[kMaxThreads / 32], block;
const std::function<void()>* body;

void enter() {
    (*body)();
    current->done = true;
    ++progress;
    machine_switch(&current->stack_pointer, main_stack);
    std::abort();
}

void prepare(Fiber& fiber, unsigned thread) {
    fiber.stack.resize(kStackBytes);
    fiber.thread = thread;
    fiber.done = false;
    fiber.groups.assign(1, {});
    auto top = reinterpret_cast<uintptr_t>(fiber.stack.data() + kStackBytes) & ~uintptr_t{15};
    auto* stack = reinterpret_cast<void**>(top);
    *--stack = nullptr;  // as if enter() had been called: 8 bytes off alignment
    *--stack = reinterpret_cast<void*>(&enter);
    for (int i = 0; i < 6; ++i) *--stack = nullptr;
    fiber.stack_pointer = stack;
}

void run_block(unsigned n_threads) {
    std::memset(shared, 0xff, kSharedBytes);
    for (auto& meeting : warps) meeting = {};
    block = {};
    fibers.resize(n_threads);
    for (unsigned i = 0; i < n_threads; ++i) prepare(fibers[i], i);
    for (unsigned idle = 0, alive = n_threads; alive > 0;) {
        const uint64_t before = progress;
        alive = 0;
        for (auto& fiber : fibers) {
            if (fiber.done) continue;
            current = &fiber;
            thread_index = {fiber.thread, 0, 0};
            machine_switch(&main_stack, fiber.stack_pointer);
            alive += !fiber.done;
        }
        idle = progress == before ? idle + 1 : 0;
        if (idle > kMaxIdleRounds) {
            fault("block " + std::to_string(block_index.x) + ": " + std::to_string(alive) + " threads wait for ever");
            return;
        }
    }
}

}  // namespace

void fault(const std::string& what) {
    if (problem.empty()) problem = what + ", thread " + std::to_string(thread_index.x);
}

void yield() {
    Fiber* self = current;
    machine_switch(&self->stack_pointer, main_stack);
}

Meeting& warp() { return warps[thread_index.x / 32]; }

void meet(Meeting& meeting, unsigned n) {
    ++progress;
    if (++meeting.arrived == n) {
        meeting.arrived = 0;
        ++meeting.generation;
        return;
    }
    for (const unsigned before = meeting.generation; meeting.generation == before;) yield();
}

void run(const std::function<void()>& kernel, const unsigned* grid, const unsigned* size) {
    body = &kernel;
    grid_size = {grid[0], grid[1], grid[2]};
    block_size = {size[0], size[1], size[2]};
    for (unsigned i = 0; i < grid[0] && problem.empty(); ++i) {
        block_index = {i, 0, 0};
        run_block(size[0]);
    }
}

}  // namespace machine

void __syncthreads() { machine::meet(machine::block, machine::block_size.x); }

extern "C" __attribute__((visibility("default"))) const char* machine_problem() { return machine::problem.c_str(); }
