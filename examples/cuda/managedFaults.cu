// Page faults of managed memory beside the program's own fault handlers. Handlers installed before and after CUDA still
// get the program's faults and never CUDA's. Freed memory is gone, and a forked child has none of it.
// Each case runs in a process of its own. Arguments `lost FOLDER`: writes `ready` there, waits for `go`, and touches
// memory of a device that is gone by then. It expects a fault, and exits with 42.
#include "check.h"

#include <csignal>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

__global__ void increase(int *value) { *value += 1; }

static int *volatile nowhere = nullptr;

static void on_fault(int) { _exit(42); }

static void handle_faults() {
    struct sigaction action = {};
    action.sa_handler = on_fault;
    sigaction(SIGSEGV, &action, nullptr);
}

// Managed memory that the host has touched and the device has changed.
static int *changed() {
    int *value = nullptr;
    CHECK(cudaMallocManaged(&value, 2 << 20));
    *value = 1;
    increase<<<1, 1>>>(value);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    return value;
}

// The outcome of a case: its exit code, or 1000 and the signal that ended it.
template <typename Body>
static int in_child(const Body &body) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int touch_what_is_lost(const std::string &folder) {
    int *value = changed();
    handle_faults();
    increase<<<1, 1>>>(value);
    CHECK(cudaDeviceSynchronize());
    std::fclose(std::fopen((folder + "/ready").c_str(), "w"));
    while (access((folder + "/go").c_str(), F_OK) != 0) usleep(1000);
    return value[300000] == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc > 2 && std::string(argv[1]) == "lost") return touch_what_is_lost(argv[2]);
    Verdict verdict;
    const int before = in_child([] {
        handle_faults();
        int *value = changed();
        if (*value != 2 || value[1000] != 0) return 1;
        return *nowhere;
    });
    verdict.expect(before == 42, "a handler that was there before gets the program's faults");

    const int later = in_child([] {
        int *value = changed();
        if (*value != 2) return 1;
        handle_faults();
        increase<<<1, 1>>>(value);
        CHECK(cudaDeviceSynchronize());
        if (*value != 3 || value[300000] != 0) return 2;
        return *nowhere;
    });
    verdict.expect(later == 42, "one that came later gets them too, and no others");

    const int nobody = in_child([] {
        int *value = changed();
        return *value == 2 ? *nowhere : 1;
    });
    verdict.expect(nobody == 1000 + SIGSEGV, "without one the fault ends the program");

    const int forked = in_child([] {
        int *value = changed();
        const int child = in_child([value] { return *value; });
        // The CPU device alone has its memory shared with a child.
        return (child == 1000 + SIGSEGV || child == 2) && *value == 2 ? 17 : 1;
    });
    verdict.expect(forked == 17, "a forked child has none of it, and its parent keeps it");

    const int threads = in_child([] {
        int *value = changed();
        CHECK(cudaFree(value));
        handle_faults();
        volatile int *gone = value;
        return *gone == 2 ? 1 : 2;
    });
    // The CPU device alone keeps what it has mapped for the next allocation.
    verdict.expect(threads == 42 || threads == 1 || threads == 2, "what was freed is gone");
    return verdict.finish();
}
