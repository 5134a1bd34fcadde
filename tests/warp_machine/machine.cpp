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

// Who used two bytes of shared memory last, and how often its warp had put memory in order by then.
struct Use {
    unsigned thread, ordered;
};
struct Uses {
    Use write, read;
    bool read_by_others;  // in the same stretch of time, by another lane than `read`
};
constexpr unsigned kNobody = ~0u;
std::vector<Uses> uses;

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
    uses.assign(kSharedBytes / 2, {{kNobody, 0}, {kNobody, 0}, false});
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

void check_access(unsigned address, unsigned nbytes, bool write) {
    const unsigned thread = thread_index.x;
    const unsigned now = warp().ordered;
    const auto meets = [&](const Use& use) {
        return use.thread != kNobody && use.thread / 32 == thread / 32 && use.ordered == now;
    };
    for (unsigned i = address / 2; i < (address + nbytes + 1) / 2; ++i) {
        Uses& of = uses[i];
        const bool raced = (meets(of.write) && of.write.thread != thread) ||
                           (write && meets(of.read) && (of.read.thread != thread || of.read_by_others));
        if (raced) {
            fault(std::string(write ? "write" : "read") + " of shared memory at " + std::to_string(2 * i) +
                  ", used by thread " + std::to_string(meets(of.write) ? of.write.thread : of.read.thread) +
                  " with no __syncwarp() between");
        }
        if (write) {
            of.write = {thread, now};
        } else {
            of.read_by_others = meets(of.read) && (of.read_by_others || of.read.thread != thread);
            of.read = {thread, now};
        }
    }
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

void __syncwarp() {
    machine::Meeting& warp = machine::warp();
    const unsigned next = warp.ordered + 1;
    machine::exchange();
    warp.ordered = next;  // each lane sets the same
}

void __syncthreads() {
    machine::meet(machine::block, machine::block_size.x);
    // All lanes of a warp are here or behind: the first one counts for all.
    __syncwarp();
}

extern "C" __attribute__((visibility("default"))) const char* machine_problem() {
    static std::string told;
    told.swap(machine::problem);
    machine::problem.clear();
    return told.c_str();
}
