/* Steps as training programs make them: inputs to the device, kernels, one number back. It checks every number, and what waits
 * promise. It needs no CUDA header.
 *   steps STEPS pinned|pageable|flagged|words|streams|threads|questions|contexts|stands|fault|reset */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

enum { COUNT = 1024, LONG = 200000 };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    /* Counts up to `times`, then each thread adds 1 to its number. */
    ".visible .entry add(.param .u64 at, .param .u32 times)\n{\n"
    ".reg .u64 %rd<4>; .reg .u32 %r<6>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [at]; ld.param.u32 %r1, [times]; mov.u32 %r2, %tid.x;\n"
    "mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2;\n"
    "again: sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra again;\n"
    "ld.global.u32 %r3, [%rd3]; add.u32 %r3, %r3, 1; st.global.u32 [%rd3], %r3; ret;\n}\n"
    /* Waits until a word is not 0. */
    ".visible .entry stand(.param .u64 at)\n{\n"
    ".reg .u64 %rd<2>; .reg .u32 %r<2>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [at];\n"
    "again: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p, %r1, 0; @%p bra again; ret;\n}\n";

#define IS(what, value) do { long is_ = (long)(what), wanted_ = (long)(value); \
    if (is_ != wanted_) { printf("%s: %ld, and not %ld\n", #what, is_, wanted_); exit(1); } } while (0)

static void *context, *function, *wait_function;
static void launch(uint64_t at, uint32_t times, void *stream) {
    void *parameters[] = { &at, &times };
    DO(CUDA("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
}

static uint32_t first(uint64_t at) {
    uint32_t number;
    DO(CUDA("cuMemcpyDtoH_v2", &number, at, sizeof number));
    return number;
}

/* Inputs from pinned or pageable memory, the latter waited for; one number back. */
static void inputs(int steps, int is_pinned) {
    uint64_t at[2];
    uint32_t *numbers[2], pageable[2][COUNT];
    for (int i = 0; i < 2; i++) {
        DO(CUDA("cuMemAlloc_v2", &at[i], sizeof pageable[i]));
        numbers[i] = pageable[i];
        if (is_pinned) DO(CUDA("cuMemHostAlloc", &numbers[i], sizeof pageable[i], 0));
    }
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < COUNT; k++) numbers[i][k] = (uint32_t)(step * 10 + i);
            DO(CUDA("cuMemcpyHtoDAsync_v2", at[i], numbers[i], sizeof pageable[i], NULL));
            if (!is_pinned) DO(CUDA("cuStreamSynchronize", NULL));
        }
        launch(at[0], 100, NULL);
        launch(at[1], 100, NULL);
        /* A number that the last step's wait has made known to have been read: pinned memory is written again behind it. */
        IS(first(at[step % 2]), step * 10 + step % 2 + 1);
    }
}

/* What was waited for is over for every other stream, old and new, and for every other wait. */
static void streams(int steps) {
    void *one, *two, *blocking, *event, *late;
    uint64_t a, b;
    DO(CUDA("cuStreamCreate", &one, 1));
    DO(CUDA("cuStreamCreate", &two, 1));
    DO(CUDA("cuStreamCreate", &blocking, 0));
    DO(CUDA("cuEventCreate", &event, 2));
    DO(CUDA("cuMemAlloc_v2", &a, COUNT * 4));
    DO(CUDA("cuMemAlloc_v2", &b, COUNT * 4));
    DO(CUDA("cuMemsetD32_v2", a, 0, COUNT));
    DO(CUDA("cuCtxSynchronize"));
    uint32_t so_far = 0;
    for (int step = 0; step < steps; step++) {
        launch(a, LONG, one);
        DO(CUDA("cuStreamSynchronize", one));
        launch(a, 1, two);
        DO(CUDA("cuEventRecord", event, two));
        launch(b, LONG, two);
        DO(CUDA("cuEventSynchronize", event));
        launch(a, LONG, blocking);
        launch(b, LONG, one);
        DO(CUDA("cuCtxSynchronize"));
        launch(a, LONG, one);
        DO(CUDA("cuStreamSynchronize", one));
        DO(CUDA("cuStreamCreate", &late, 1));
        launch(a, LONG, late);
        DO(CUDA("cuStreamSynchronize", late));
        DO(CUDA("cuStreamDestroy_v2", late));
        launch(a, LONG, NULL);
        DO(CUDA("cuStreamSynchronize", NULL));
        DO(CUDA("cuMemcpyDtoDAsync_v2", b, a, (size_t)COUNT * 4, two));
        so_far += 6;
        DO(CUDA("cuStreamSynchronize", two));
        IS(first(b), so_far);
    }
}

static void set(void *at) { *(int *)at += 1; }

/* What a program may ask behind a wait: queries, times, functions of its own, numbers that arrive. */
static void questions(int steps) {
    void *stream, *events[2];
    uint64_t a;
    uint32_t *arrives;
    int calls = 0;
    DO(CUDA("cuStreamCreate", &stream, 1));
    for (int i = 0; i < 2; i++) DO(CUDA("cuEventCreate", &events[i], 0));
    DO(CUDA("cuMemAlloc_v2", &a, COUNT * 4));
    DO(CUDA("cuMemHostAlloc", &arrives, 4, 0));
    DO(CUDA("cuMemsetD32_v2", a, 0, COUNT));
    for (int step = 0; step < steps; step++) {
        DO(CUDA("cuEventRecord", events[0], stream));
        launch(a, LONG, stream);
        DO(CUDA("cuEventRecord", events[1], stream));
        DO(CUDA("cuEventSynchronize", events[1]));
        DO(CUDA("cuEventQuery", events[1]));
        DO(CUDA("cuStreamSynchronize", stream));
        DO(CUDA("cuStreamQuery", stream));
        float took = -1;
        DO(CUDA("cuEventElapsedTime", &took, events[0], events[1]));
        if (took <= 0) { printf("a kernel took %f ms\n", took); exit(1); }
        launch(a, LONG, stream);
        DO(CUDA("cuEventRecord", events[0], stream));
        int code, asked = 0;
        while ((code = CUDA("cuEventQuery", events[0])) == 600) asked++;
        IS(code, 0);
        launch(a, LONG, stream);
        while ((code = CUDA("cuStreamQuery", stream)) == 600) asked++;
        IS(code, 0);
        DO(CUDA("cuLaunchHostFunc", stream, set, &calls));
        DO(CUDA("cuStreamSynchronize", stream));
        IS(calls, step + 1);
        DO(CUDA("cuMemcpyDtoHAsync_v2", arrives, a, (size_t)4, stream));
        DO(CUDA("cuStreamSynchronize", stream));
        IS(*arrives, 3 * (step + 1));
    }
}

/* Two threads on one stream: one synchronizes all the time, the other one reads what arrives. */
static uint64_t shared_at;
static volatile int is_over;
static void *synchronizes(void *unused) {
    DO(CUDA("cuCtxSetCurrent", context));
    while (!is_over) {
        launch(shared_at, 100, NULL);
        DO(CUDA("cuStreamSynchronize", NULL));
    }
    return unused;
}

static void threads(int steps) {
    uint64_t a;
    uint32_t *arrives;
    pthread_t other;
    DO(CUDA("cuMemAlloc_v2", &shared_at, COUNT * 4));
    DO(CUDA("cuMemAlloc_v2", &a, COUNT * 4));
    DO(CUDA("cuMemHostAlloc", &arrives, 4, 0));
    DO(CUDA("cuMemsetD32_v2", a, 0, COUNT));
    if (pthread_create(&other, NULL, synchronizes, NULL)) exit(1);
    for (int step = 0; step < steps; step++) {
        launch(a, 100, NULL);
        DO(CUDA("cuMemcpyDtoHAsync_v2", arrives, a, (size_t)4, NULL));
        usleep(100);
        DO(CUDA("cuStreamSynchronize", NULL));
        IS(*arrives, step + 1);
    }
    is_over = 1;
    pthread_join(other, NULL);
}

/* 64 numbers that kernels and program both reach. */
static uint32_t *mapped(uint64_t *at) {
    uint32_t *words;
    DO(CUDA("cuMemHostAlloc", &words, (size_t)256, 2));
    DO(CUDA("cuMemHostGetDevicePointer_v2", at, words, 0));
    memset(words, 0, 256);
    return words;
}

/* What kernels write there is read behind a wait, and what the program writes there is read by kernels, while another thread
 * synchronizes all the time. At last a copy brings numbers there. */
static void words(int steps) {
    void *stream;
    uint64_t at, a;
    pthread_t other;
    uint32_t *words = mapped(&at), *beside = mapped(&a);
    DO(CUDA("cuStreamCreate", &stream, 1));
    DO(CUDA("cuMemAlloc_v2", &shared_at, COUNT * 4));
    if (pthread_create(&other, NULL, synchronizes, NULL)) exit(1);
    for (int step = 0; step < steps; step++) {
        launch(at, LONG / 20, stream);
        DO(CUDA("cuStreamSynchronize", stream));
        if (step % 3) IS(words[7], step * 10 + 1);
        words[7] = (uint32_t)(step + 1) * 10;
        if (step % 4 == 0) beside[1] += 1;
    }
    launch(a, LONG, stream);
    launch(a, 1, stream);
    DO(CUDA("cuStreamSynchronize", stream));
    IS(beside[1], (steps + 3) / 4 + 2);
    is_over = 1;
    pthread_join(other, NULL);
    for (int step = 0; step < 5; step++) {
        launch(at, LONG, NULL);
        DO(CUDA("cuStreamSynchronize", NULL));
        DO(CUDA("cuMemcpyHtoDAsync_v2", shared_at, words, (size_t)256, NULL));
        DO(CUDA("cuStreamSynchronize", NULL));
        IS(first(shared_at + 28), steps * 10 + step + 1);
        DO(CUDA("cuMemcpyDtoHAsync_v2", beside, shared_at, (size_t)256, NULL));
        DO(CUDA("cuStreamSynchronize", NULL));
        IS(beside[7], steps * 10 + step + 1);
    }
    launch(at, LONG, NULL);
    DO(CUDA("cuStreamSynchronize", NULL));
    DO(CUDA("cuMemFreeHost", words));
    DO(CUDA("cuMemFreeHost", beside));
}

/* A context after another one. */
static void contexts(int steps, const char *text) {
    void *module, *stream;
    for (int step = 0; step < steps; step++) {
        uint64_t a;
        DO(CUDA("cuMemAlloc_v2", &a, COUNT * 4));
        DO(CUDA("cuMemsetD32_v2", a, 0, COUNT));
        DO(CUDA("cuStreamCreate", &stream, 1));
        launch(a, LONG, stream);
        CUDA("cuStreamQuery", stream);
        DO(CUDA("cuStreamSynchronize", stream));
        launch(a, LONG, NULL);
        DO(CUDA("cuCtxSynchronize"));
        if (step % 2) IS(first(a), 2);
        DO(CUDA("cuDevicePrimaryCtxReset_v2", 0));
        DO(CUDA("cuDevicePrimaryCtxRetain", &context, 0));
        DO(CUDA("cuCtxSetCurrent", context));
        DO(CUDA("cuModuleLoadData", &module, text));
        DO(CUDA("cuModuleGetFunction", &function, module, "add"));
    }
}

/* A stream that stands at a word of device memory, while others are waited for, made and timed. */
static void stands(void) {
    void *standing, *blocking, *other, *late, *events[2];
    uint64_t word, a;
    DO(CUDA("cuStreamCreate", &standing, 0));
    DO(CUDA("cuStreamCreate", &blocking, 0));
    DO(CUDA("cuStreamCreate", &other, 1));
    for (int i = 0; i < 2; i++) DO(CUDA("cuEventCreate", &events[i], 0));
    DO(CUDA("cuMemAlloc_v2", &word, 4));
    DO(CUDA("cuMemAlloc_v2", &a, COUNT * 4));
    DO(CUDA("cuMemsetD32_v2", word, 0, (size_t)1));
    DO(CUDA("cuMemsetD32_v2", a, 0, COUNT));
    DO(CUDA("cuCtxSynchronize"));
    void *parameters[] = { &word };
    DO(CUDA("cuLaunchKernel", wait_function, 1, 1, 1, 1, 1, 1, 0, standing, parameters, NULL));
    DO(CUDA("cuEventRecord", events[0], other));
    launch(a, LONG, other);
    DO(CUDA("cuEventRecord", events[1], other));
    DO(CUDA("cuStreamSynchronize", other));
    float took = -1;
    DO(CUDA("cuEventElapsedTime", &took, events[0], events[1]));
    if (took <= 0) { printf("a kernel took %f ms\n", took); exit(1); }
    DO(CUDA("cuStreamCreate", &late, 1));
    launch(a, LONG, late);
    DO(CUDA("cuStreamSynchronize", late));
    DO(CUDA("cuMemsetD32Async", word, 1, (size_t)1, blocking));
    DO(CUDA("cuCtxSynchronize"));
    IS(first(a), 2);
}

/* A kernel that faults behind a wait, and a program that ends without another one. */
static void fault(int is_slow) {
    launch(64, 1, NULL);
    int code = CUDA("cuStreamSynchronize", NULL);
    printf("synchronize: %d\n", code);
    /* Until the error is here. */
    if (is_slow) usleep(300000);
}

int main(int count, char **arguments) {
    if (count < 3) { fprintf(stderr, "steps STEPS MODE\n"); return 2; }
    int steps = atoi(arguments[1]);
    const char *mode = arguments[2];
    void *module;
    use_first_device(&context);
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &function, module, "add"));
    DO(CUDA("cuModuleGetFunction", &wait_function, module, "stand"));
    uint64_t flags;
    /* Libraries have such words for kernels that fail, and do not read them. */
    if (!strcmp(mode, "flagged")) mapped(&flags);
    if (!strcmp(mode, "flagged")) inputs(steps, 0);
    else if (!strcmp(mode, "words")) words(steps);
    else if (!strcmp(mode, "pinned") || !strcmp(mode, "pageable")) inputs(steps, mode[1] == 'i');
    else if (!strcmp(mode, "streams")) streams(steps);
    else if (!strcmp(mode, "questions")) questions(steps);
    else if (!strcmp(mode, "threads")) threads(steps);
    else if (!strcmp(mode, "contexts")) contexts(steps, TEXT);
    else if (!strcmp(mode, "stands")) stands();
    else fault(steps > 1);
    /* A context that ends takes its errors along. */
    if (!strcmp(mode, "reset")) {
        DO(CUDA("cuDevicePrimaryCtxReset_v2", 0));
        DO(CUDA("cuDevicePrimaryCtxRetain", &context, 0));
        DO(CUDA("cuCtxSetCurrent", context));
        uint64_t a;
        DO(CUDA("cuMemAlloc_v2", &a, 4));
        DO(CUDA("cuMemsetD32_v2", a, 7, (size_t)1));
        IS(first(a), 7);
    }
    puts("right");
    return 0;
}
