/* Words of pinned memory that kernels write and the program reads behind a synchronization, where others meddle. It checks what it
 * reads. It needs no CUDA header.
 *   words handler|fork|host|image|lost [COMMAND] */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

enum { BYTES = 4096, LONG = 50000, ROUNDS = 600 };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    /* Counts up to `times`, then adds 1 to the number. */
    ".visible .entry add(.param .u64 at, .param .u32 times)\n{\n"
    ".reg .u64 %rd<2>; .reg .u32 %r<3>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [times];\n"
    "again: sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra again;\n"
    "ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.global.u32 [%rd1], %r2; ret;\n}\n";

static void *context, *function, *stream;
static volatile uint32_t *words;
static uint64_t at, beside;
static volatile int is_over;
static volatile uint32_t calls;

static volatile uint32_t *mapped(uint64_t *place, size_t bytes) {
    void *made;
    DO(CUDA("cuMemHostAlloc", &made, bytes, 2));
    DO(CUDA("cuMemHostGetDevicePointer_v2", place, made, 0));
    memset(made, 0, bytes);
    return made;
}

static void step(uint64_t place, uint32_t times) {
    void *parameters[] = { &place, &times };
    DO(CUDA("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    DO(CUDA("cuStreamSynchronize", stream));
}

static void is(const char *what, uint32_t value, uint32_t wanted) {
    if (value == wanted) return;
    printf("%s: %u, and not %u\n", what, value, wanted);
    exit(1);
}

static void own_handler(int number) {
    (void)number;
    if (write(1, "the program's handler\n", 22)) _exit(9);
}

/* A handler that the program installs later than floe does. */
static void handler(void) {
    signal(SIGSEGV, own_handler);
    for (uint32_t round = 1; round <= 3; round++) {
        step(at, LONG);
        is("behind a handler", words[0], round);
    }
}

/* A child has what the parent's kernels have written. */
static void forks(void) {
    for (uint32_t round = 1; round <= 5; round++) {
        int status = 0;
        step(at, LONG);
        pid_t child = fork();
        if (!child) _exit((int)words[0]);
        waitpid(child, &status, 0);
        is("a child", WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 99, round);
        is("its parent", words[0], round);
    }
}

static void *synchronizes(void *unused) {
    DO(CUDA("cuCtxSetCurrent", context));
    while (!is_over) step(beside, 500);
    return unused;
}

static void host_function(void *unused) {
    (void)unused;
    words[9] += 1;
    calls++;
}

/* Functions of the program on a stream that another thread synchronizes. */
static void host(void) {
    for (int round = 0; round < ROUNDS; round++) {
        DO(CUDA("cuLaunchHostFunc", stream, host_function, NULL));
        usleep(500);
    }
    DO(CUDA("cuStreamSynchronize", stream));
    is("functions", calls, ROUNDS);
    is("what they wrote", words[9], ROUNDS);
}

/* A module's text in such memory. */
static void image(void) {
    for (int round = 0; round < ROUNDS / 20; round++) {
        void *module;
        uint64_t place;
        volatile uint32_t *text = mapped(&place, 2 * BYTES);
        strcpy((char *)text, TEXT);
        usleep(1000);
        DO(CUDA("cuModuleLoadData", &module, text));
        DO(CUDA("cuModuleUnload", module));
        DO(CUDA("cuMemFreeHost", text));
    }
}

/* The server is gone before the work is over that the program takes for over. */
static void lost(const char *command) {
    is("before", words[0], 0);
    /* It counts through all 32 bits: its server ends first, on however fast a machine. */
    step(at, 0);
    if (system(command)) exit(1);
    printf("read %u\n", words[0]);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "handler";
    int is_beside = !strcmp(mode, "host") || !strcmp(mode, "image");
    void *module;
    pthread_t other;
    use_first_device(&context);
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &function, module, "add"));
    DO(CUDA("cuStreamCreate", &stream, 1));
    words = mapped(&at, BYTES);
    mapped(&beside, BYTES);
    if (is_beside && pthread_create(&other, NULL, synchronizes, NULL)) return 1;
    if (!strcmp(mode, "handler")) handler();
    else if (!strcmp(mode, "fork")) forks();
    else if (!strcmp(mode, "host")) host();
    else if (!strcmp(mode, "image")) image();
    else lost(count > 2 ? arguments[2] : "true");
    is_over = 1;
    if (is_beside) pthread_join(other, NULL);
    puts("right");
    return 0;
}
