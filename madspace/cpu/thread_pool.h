// Splits a range of events over threads. One job at a time: a caller that finds the pool busy runs its range alone, so
// calls from several Python threads never wait for each other and never deadlock.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "host_kernel.h"

namespace madspace {

inline int available_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        const int n = CPU_COUNT(&set);
        if (n > 0) return n;
    }
    const unsigned n = std::thread::hardware_concurrency();
    return n > 0 ? static_cast<int>(n) : 1;
}

// A pool that only grows: a job says how many of its threads may work on it.
class ThreadPool {
public:
    using Run = void (*)(const void* args, long long begin, long long end);

    // By n_threads threads at most, the calling one included.
    void run(Run fn, const void* args, long long n, long long grain, int n_threads) {
        if (n <= grain || n_threads <= 1 || busy_.test_and_set(std::memory_order_acquire)) {
            fn(args, 0, n);
            return;
        }
        grow(n_threads - 1);
        Job job{fn, args, n, grain, n_threads - 1};
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            ++generation_;
        }
        wake_.notify_all();
        job.work();
        std::unique_lock<std::mutex> lock(mutex_);
        job_ = nullptr;  // a thread that wakes up late finds nothing
        done_.wait(lock, [this] { return inside_ == 0; });
        lock.unlock();
        busy_.clear(std::memory_order_release);
    }

private:
    struct Job {
        Run fn;
        const void* args;
        long long n, grain;
        int helpers;  // threads that may still join, under the lock
        std::atomic<long long> next{0};

        Job(Run f, const void* a, long long count, long long g, int h)
            : fn(f), args(a), n(count), grain(g), helpers(h) {}

        void work() {
            for (;;) {
                const long long begin = next.fetch_add(grain, std::memory_order_relaxed);
                if (begin >= n) return;
                fn(args, begin, begin + grain < n ? begin + grain : n);
            }
        }
    };

    // Called by whoever holds the pool (busy_). Threads are detached and the pool is never destroyed: at exit they
    // sleep until the process ends.
    void grow(int n_helpers) {
        for (; made_ < n_helpers; ++made_) {
            try {
                std::thread([this] { serve(); }).detach();
            } catch (const std::system_error&) {
                break;  // the system gives no more threads: work with those that there are
            }
        }
    }

    void serve() {
        unsigned long seen = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return generation_ != seen; });
            seen = generation_;
            if (job_ == nullptr || job_->helpers == 0) continue;
            Job* job = job_;
            --job->helpers;
            ++inside_;
            lock.unlock();
            job->work();
            lock.lock();
            if (--inside_ == 0) done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
    Job* job_ = nullptr;
    unsigned long generation_ = 0;
    int inside_ = 0;
    int made_ = 0;
};

// The process's pool, made at first use. Threads do not survive fork: the child forgets the pool and makes a new one.
class SharedPool {
public:
    // 0: one thread per available core.
    static void set_threads(int n) { state().wanted.store(n); }

    static int threads() {
        const int wanted = state().wanted.load();
        return wanted > 0 ? wanted : available_cores();
    }

    static void run(ThreadPool::Run fn, const void* args, long long n, long long grain) {
        const int n_threads = threads();
        if (n_threads == 1 || n <= grain) {
            fn(args, 0, n);
            return;
        }
        pool().run(fn, args, n, grain, n_threads);
    }

private:
    struct State {
        std::atomic<ThreadPool*> pool{nullptr};
        std::atomic<int> wanted{0};

        State() {
            // Without a lock, which a thread that the child does not have may hold.
            pthread_atfork(nullptr, nullptr, [] { state().pool.store(nullptr); });
        }
    };

    static ThreadPool& pool() {
        std::atomic<ThreadPool*>& shared = state().pool;
        ThreadPool* pool = shared.load(std::memory_order_acquire);
        if (pool == nullptr) {
            ThreadPool* made = new ThreadPool;  // has no threads yet
            if (shared.compare_exchange_strong(pool, made)) {
                pool = made;
            } else {
                delete made;  // another thread was first, and `pool` is its one
            }
        }
        return *pool;
    }

    static State& state() {
        static State* const s = new State;  // leaked: used until the last moment of the process
        return *s;
    }
};

}  // namespace madspace
