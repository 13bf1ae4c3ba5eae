/* What a GPU's fault needs of the host, and what faults cost: the measured reasons for CONCURRENT_MANAGED_ACCESS 0 in
 * docs/explanation/managed-memory.md. It runs on NVIDIA's own driver, without floe; each probe is a process of its own, since a fault
 * ends the context. What it printed on an H200 is in concurrent.txt. It needs no CUDA header. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

enum { PAGE = 4096, WRITES = 100000, ROUNDS = 200 };
#define MIB ((size_t)1 << 20)

static const char TEXT[] =
    ".version 7.0\n.target sm_60\n.address_size 64\n"
    /* One word. */
    ".visible .entry peek(.param .u64 at, .param .u64 out)\n{\n.reg .u64 %rd<3>; .reg .u32 %r;\n"
    "ld.param.u64 %rd1, [at]; ld.param.u64 %rd2, [out]; ld.volatile.global.u32 %r, [%rd1]; st.global.u32 [%rd2], %r; ret;\n}\n"
    /* A word of each `step` bytes of the first `bytes` is one more; all threads of the grid take turns. */
    ".visible .entry bump(.param .u64 at, .param .u64 bytes, .param .u64 step)\n{\n"
    ".reg .u64 %rd<9>; .reg .u32 %r<5>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [at]; ld.param.u64 %rd2, [bytes]; ld.param.u64 %rd3, [step];\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1; mov.u32 %r4, %nctaid.x;\n"
    "mul.lo.u32 %r3, %r3, %r4; cvt.u64.u32 %rd4, %r1; mul.lo.u64 %rd4, %rd4, %rd3; cvt.u64.u32 %rd5, %r3; mul.lo.u64 %rd5, %rd5, %rd3;\n"
    "again: setp.ge.u64 %p, %rd4, %rd2; @%p bra done; add.u64 %rd6, %rd1, %rd4; ld.global.u32 %r1, [%rd6]; add.u32 %r1, %r1, 1;\n"
    "st.global.u32 [%rd6], %r1; add.u64 %rd4, %rd4, %rd5; bra again;\ndone: ret;\n}\n"
    /* One thread adds 1 `times` times, as the whole system sees it. */
    ".visible .entry add(.param .u64 at, .param .u32 times)\n{\n.reg .u64 %rd; .reg .u32 %r<3>; .reg .pred %p;\n"
    "ld.param.u64 %rd, [at]; ld.param.u32 %r1, [times];\n"
    "again: atom.sys.global.add.u32 %r2, [%rd], 1; sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra again; ret;\n}\n"
    /* Answers each odd number with the next even one, up to `last`. */
    ".visible .entry answer(.param .u64 at, .param .u32 last)\n{\n.reg .u64 %rd; .reg .u32 %r<5>; .reg .pred %p;\n"
    "ld.param.u64 %rd, [at]; ld.param.u32 %r1, [last];\n"
    "again: ld.volatile.global.u32 %r2, [%rd]; and.b32 %r3, %r2, 1; setp.eq.u32 %p, %r3, 0; @%p bra again;\n"
    "add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd], %r2; membar.sys; setp.lt.u32 %p, %r2, %r1; @%p bra again; ret;\n}\n";

static void *module;
static uint64_t out;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *function(const char *name) {
    void *found;
    DO(CUDA("cuModuleGetFunction", &found, module, name));
    return found;
}

static void start(void) {
    void *context;
    use_first_device(&context);
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuMemAlloc_v2", &out, (size_t)4));
}

static int attribute(int number) {
    int value = -1;
    DO(CUDA("cuDeviceGetAttribute", &value, number, 0));
    return value;
}

static void *managed(size_t bytes) {
    void *made;
    DO(CUDA("cuMemAllocManaged", &made, bytes, 1u));
    return made;
}

/* A kernel reads one word of `at`; what its wait says, and the word. */
static void peek(const char *what, void *at) {
    uint32_t word = 0;
    void *parameters[] = { &at, &out };
    double began = now();
    DO(CUDA("cuLaunchKernel", function("peek"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    int code = CUDA("cuCtxSynchronize");
    double took = now() - began;
    if (!code) DO(CUDA("cuMemcpyDtoH_v2", &word, out, (size_t)4));
    printf("%s: synchronize %d, word %u, %.1f ms\n", what, code, word, took * 1e3);
}

static void bump(void *at, size_t bytes, size_t step) {
    void *parameters[] = { &at, &bytes, &step };
    DO(CUDA("cuLaunchKernel", function("bump"), 1056, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
    DO(CUDA("cuCtxSynchronize"));
}

static void attributes(void) {
    printf("CONCURRENT_MANAGED_ACCESS %d, PAGEABLE_MEMORY_ACCESS %d, by the host's page tables %d, HOST_NATIVE_ATOMIC %d, "
           "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST %d\n", attribute(89), attribute(88), attribute(100), attribute(86), attribute(101));
}

/* A descriptor for faults of user and kernel, or of user code alone where the system gives no other. */
static int faults(const char **kind) {
    *kind = "user and kernel";
    int made = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (made < 0) {
        *kind = "user code only";
        made = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    }
    if (made < 0) { printf("userfaultfd: %s\n", strerror(errno)); exit(1); }
    struct uffdio_api api = { .api = UFFD_API };
    if (ioctl(made, UFFDIO_API, &api)) { printf("UFFDIO_API: %s\n", strerror(errno)); exit(1); }
    return made;
}

static int watch(int by, void *at, size_t bytes, uint64_t mode) {
    struct uffdio_register watched = { .range = { (uintptr_t)at, bytes }, .mode = mode };
    return ioctl(by, UFFDIO_REGISTER, &watched) ? errno : 0;
}

static void watched_managed(void) {
    const char *kind;
    int by = faults(&kind);
    void *at = managed(2 * MIB);
    static const struct { const char *name; uint64_t mode; } MODES[] = {
        { "missing", UFFDIO_REGISTER_MODE_MISSING }, { "write-protect", UFFDIO_REGISTER_MODE_WP }, { "minor", UFFDIO_REGISTER_MODE_MINOR },
    };
    for (int i = 0; i < 3; i++) {
        int code = watch(by, at, 2 * MIB, MODES[i].mode);
        printf("userfaultfd (%s) over managed memory, %s: %s\n", kind, MODES[i].name, code ? strerror(code) : "taken");
    }
}

static int handler;
static uint32_t given[PAGE / 4] = { 7 };

/* Answers a page fault with a page whose first word is 7, and says who asked. */
static void *answers(void *none) {
    struct pollfd wait = { handler, POLLIN, 0 };
    while (poll(&wait, 1, 5000) > 0) {
        struct uffd_msg event;
        if (read(handler, &event, sizeof event) != sizeof event) continue;
        printf("  the host's handler was asked for a page\n");
        struct uffdio_copy page = { .dst = event.arg.pagefault.address & ~(uint64_t)(PAGE - 1), .src = (uintptr_t)given, .len = PAGE };
        ioctl(handler, UFFDIO_COPY, &page);
    }
    return none;
}

static void *pages(int shared) {
    int file = shared ? memfd_create("pages", MFD_CLOEXEC) : -1;
    if (shared && ftruncate(file, 2 * MIB)) exit(1);
    return mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
}

static void watched_pages(int shared) {
    const char *kind;
    handler = faults(&kind);
    void *at = pages(shared);
    int code = watch(handler, at, 2 * MIB, UFFDIO_REGISTER_MODE_MISSING);
    printf("userfaultfd (%s) over %s pages: %s\n", kind, shared ? "a memory file's" : "private", code ? strerror(code) : "taken");
    pthread_t thread;
    pthread_create(&thread, NULL, answers, NULL);
    peek("  a kernel reads a page that is missing", at);
}

static void watched_private(void) { watched_pages(0); }
static void watched_file(void) { watched_pages(1); }

static void ordinary(void) {
    uint32_t *at = pages(0);
    *at = 7;
    peek("a kernel reads private pages", at);
}

static void ordinary_file(void) {
    uint32_t *at = pages(1);
    *at = 7;
    peek("a kernel reads a memory file's pages", at);
}

static void opens(int signal, siginfo_t *fault, void *context) {
    (void)signal; (void)context;
    static const char said[] = "  the host got SIGSEGV\n";
    if (write(1, said, sizeof said - 1) < 0) _exit(1);
    mprotect((void *)((uintptr_t)fault->si_addr & ~(uintptr_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

static void closed_pages(uint32_t *at, const char *whose) {
    struct sigaction action = { .sa_sigaction = opens, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    *at = 7;
    int code = mprotect(at, 2 * MIB, PROT_NONE) ? errno : 0;
    printf("mprotect(PROT_NONE) of %s: %s\n", whose, code ? strerror(code) : "taken");
    peek("  a kernel reads them", at);
}

static void closed_managed(void) { closed_pages(managed(2 * MIB), "managed pages"); }
static void closed_private(void) { closed_pages(pages(0), "private pages"); }

static void replaced_managed(void) {
    void *at = managed(2 * MIB);
    void *placed = mmap(at, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("mmap over managed memory: %s\n", placed == MAP_FAILED ? strerror(errno) : "taken");
    if (placed == at) { *(uint32_t *)at = 7; peek("  a kernel reads it", at); }
}

/* The host's numbers and a kernel's, by turns, in one word. */
static void by_turns(const char *what, void *at) {
    _Atomic uint32_t *word = at;
    uint32_t last = 2 * ROUNDS;
    void *parameters[] = { &at, &last };
    atomic_store(word, 0);
    DO(CUDA("cuLaunchKernel", function("answer"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    double began = now();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        atomic_store(word, 2 * round + 1);
        while (atomic_load(word) != 2 * round + 2) {}
    }
    printf("host and kernel by turns, %s: %.2f us a turn\n", what, (now() - began) * 1e6 / (2 * ROUNDS));
    DO(CUDA("cuCtxSynchronize"));
}

static void turns_managed(void) { by_turns("managed memory", managed(PAGE)); }
static void turns_pinned(void) { by_turns("pinned memory", new_pinned(PAGE)); }

/* Both add to one word at once. */
static void at_once(const char *what, void *at) {
    _Atomic uint32_t *word = at;
    uint32_t count = WRITES;
    void *parameters[] = { &at, &count };
    atomic_store(word, 0);
    double began = now();
    DO(CUDA("cuLaunchKernel", function("add"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    for (int i = 0; i < WRITES; i++) atomic_fetch_add(word, 1);
    DO(CUDA("cuCtxSynchronize"));
    printf("host and kernel add 1 at once, %s: %u of %u arrived, %.1f ms\n", what, atomic_load(word), 2 * WRITES, (now() - began) * 1e3);
}

static void adds_managed(void) { at_once("managed memory", managed(PAGE)); }
static void adds_pinned(void) { at_once("pinned memory", new_pinned(PAGE)); }

static void host_touches(const char *what, uint32_t *at, size_t bytes, size_t step) {
    bump(at, bytes, 4);
    double began = now();
    for (size_t i = 0; i < bytes; i += step) at[i / 4] += 1;
    double took = now() - began;
    printf("the host touches each %s of %zu MiB that the GPU has: %.1f us a touch, %.2f GB/s\n", what, bytes / MIB,
           took * 1e6 / (bytes / step), bytes / took / 1e9);
}

static void faults_cost(void) {
    size_t bytes = 256 * MIB;
    uint32_t *at = managed(bytes);
    host_touches("4 KiB", at, bytes, PAGE);
    host_touches("64 KiB", at, bytes, 16 * PAGE);
    host_touches("2 MiB", at, bytes, 2 * MIB);
    for (int turn = 0; turn < 2; turn++) {
        if (!turn) memset(at, 0, bytes);
        double began = now();
        bump(at, bytes, 4);
        double took = now() - began;
        printf("a kernel reads and writes %zu MiB %s: %.2f ms, %.1f GB/s\n", bytes / MIB,
               turn ? "that the GPU has" : "that the host wrote", took * 1e3, bytes / took / 1e9);
    }
    void *pinned = new_pinned(bytes);
    bump(pinned, bytes, 4);
    double began = now();
    bump(pinned, bytes, 4);
    double took = now() - began;
    printf("a kernel reads and writes %zu MiB of pinned memory: %.2f ms, %.1f GB/s\n", bytes / MIB, took * 1e3, bytes / took / 1e9);
}

int main(void) {
    static void (*const PROBES[])(void) = {
        attributes, watched_managed, closed_managed, replaced_managed, ordinary, ordinary_file, watched_private, watched_file,
        closed_private, turns_managed, turns_pinned, adds_managed, adds_pinned, faults_cost,
    };
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < sizeof PROBES / sizeof *PROBES; i++) {
        int status;
        pid_t child = fork();
        if (!child) {
            alarm(60);
            start();
            PROBES[i]();
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) printf("  ended by signal %d\n", WTERMSIG(status));
    }
    return 0;
}
