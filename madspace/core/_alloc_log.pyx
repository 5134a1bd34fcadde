"""The allocation log: MADSPACE_ALLOC_LOG=file.csv."""
import atexit
import os
import warnings

from libc.stdint cimport uint64_t

from madspace.core._watch cimport LOG, watch

from madspace.errors import MadspaceWarning


cdef extern from *:
    """
    #include <fcntl.h>
    #include <sys/file.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    #include <atomic>
    #include <cerrno>
    #include <cstdint>
    #include <cstdio>
    #include <mutex>
    #include <string>
    namespace {
    constexpr size_t kFlushBytes = 1 << 16;
    constexpr time_t kFlushSeconds = 1;   // what a killed process may lose
    const char* const kActions[] = {"allocate", "free", "failure"};

    struct AllocLog {
      std::mutex lock;
      std::string path, waiting;
      int file = -1;
      std::atomic<pid_t> owner{0};
      time_t flushed = 0;

      // The file of this process, empty. Where another process writes to it at this moment: one with the number of the
      // process before the suffix.
      bool open_file() {
        file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (file >= 0 && flock(file, LOCK_EX | LOCK_NB)) {
          close(file);
          size_t dot = path.rfind('.');
          if (dot == std::string::npos || path.find('/', dot) != std::string::npos) dot = path.size();
          path.insert(dot, "." + std::to_string(getpid()));
          file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
          if (file >= 0) flock(file, LOCK_EX | LOCK_NB);
        }
        if (file < 0 || ftruncate(file, 0)) return false;
        waiting = "thread,time,action,device,pointer,size,stream\\n";
        return true;
      }
      bool write_out() {
        size_t done = 0;
        while (done < waiting.size()) {
          ssize_t n = write(file, waiting.data() + done, waiting.size() - done);
          if (n < 0 && errno == EINTR) continue;
          if (n < 0) return false;
          done += n;
        }
        waiting.clear();
        return true;
      }
      // 0, or the errno that ended the log.
      int add(int action, int device, uint64_t ptr, uint64_t size, uint64_t stream) noexcept {
        try {
          // A forked child has no device, and not this file; nobody may be left there to release the lock.
          if (owner && owner != getpid()) return 0;
          std::lock_guard<std::mutex> guard(lock);
          if (!owner) {
            owner = getpid();
            if (!open_file()) return errno;
          }
          thread_local const long thread = syscall(SYS_gettid);
          timespec now;
          clock_gettime(CLOCK_REALTIME, &now);
          char line[160];
          snprintf(line, sizeof line, "%ld,%lld.%09ld,%s,%d,0x%llx,%llu,0x%llx\\n", thread, (long long)now.tv_sec,
                   now.tv_nsec, kActions[action], device, (unsigned long long)ptr, (unsigned long long)size,
                   (unsigned long long)stream);
          waiting += line;
          if (waiting.size() < kFlushBytes && now.tv_sec - flushed < kFlushSeconds) return 0;
          flushed = now.tv_sec;
          return write_out() ? 0 : errno;
        } catch (...) {
          return ENOMEM;
        }
      }
      void finish() noexcept {
        if (owner != getpid()) return;
        std::lock_guard<std::mutex> guard(lock);
        if (file < 0) return;
        write_out();
        // Said aloud: a forked child may still hold the descriptor, and the lock with it.
        flock(file, LOCK_UN);
        close(file);
        file = -1;
        owner = -1;
      }
    };
    // Never destroyed: threads may still free buffers while the process exits.
    AllocLog& alloc_log = *new AllocLog;
    }
    """
    cdef cppclass AllocLog:
        const char* set_path "path.assign"(const char* path) except +
        int add(int action, int device, uint64_t ptr, uint64_t size, uint64_t stream) noexcept nogil
        void finish() noexcept nogil
    AllocLog alloc_log


cdef void log_event(Action action, int device_id, uint64_t ptr, uint64_t nbytes, uint64_t stream) noexcept:
    cdef int failed
    with nogil:
        failed = alloc_log.add(action, device_id, ptr, nbytes, stream)
    if failed:
        watch(LOG, False)
        warnings.warn(f"MADSPACE_ALLOC_LOG: the allocation log ends here: {os.strerror(failed)}", MadspaceWarning,
                      stacklevel=2)


def _finish():
    watch(LOG, False)
    with nogil:
        alloc_log.finish()


cdef int start() except -1:
    cdef bytes path = os.fsencode(os.environ.get("MADSPACE_ALLOC_LOG", ""))
    if not path:
        return 0
    # The file is made at the first event. Its path is settled now, before anybody changes the folder.
    path = os.path.abspath(path)
    alloc_log.set_path(path)
    # Registered before the driver starts, so that it runs when no more frees can come.
    atexit.register(_finish)
    watch(LOG, True)
    return 0


start()
