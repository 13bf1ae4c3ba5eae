/* A start as training programs have it: libraries, kernels of them, how those fit the device, variables, memory, one number back. It
 * checks what it is told. It needs no CUDA header.
 *   start plain|slow|changed|other|threads|reset|full */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "driver.h"

#define IS(what, value) do { long is_ = (long)(what), wanted_ = (long)(value); \
    if (is_ != wanted_) { printf("%s: %ld, and not %ld\n", #what, is_, wanted_); exit(1); } } while (0)

enum { LIBRARIES = 4, KERNELS = 3, QUESTIONS = 12, SHARED = 64 << 10, BIG = 20 << 20 };

/* Each kernel adds another number; the libraries differ in that and in their number of variables. */
static const char HEAD[] = ".version 7.0\n.target sm_52\n.address_size 64\n";
static const char ENTRY[] =
    ".visible .global .u32 known%d = %d;\n"
    ".visible .entry kernel%d(.param .u64 at)\n{\n"
    ".reg .u64 %%rd<2>; .reg .u32 %%r<2>;\n"
    "ld.param.u64 %%rd1, [at]; ld.global.u32 %%r1, [%%rd1]; add.u32 %%r1, %%r1, %d; st.global.u32 [%%rd1], %%r1; ret;\n}\n";

static char texts[LIBRARIES][4096];
static union { char bytes[8192]; uint64_t aligned; } containers[LIBRARIES];

/* A fat binary with this text: a container with one entry. */
static void *container(int library) {
    char *at = containers[library].bytes, *text = texts[library];
    uint64_t bytes = (strlen(text) + 8) & ~7ul, all = 64 + bytes, flags = 0x11;
    uint32_t magic = 0xBA55ED50, head = 64, target = 52;
    uint16_t numbers[] = { 1, 16 }, kind[] = { 1, 0x101 }, version[] = { 0, 7 };
    memcpy(at, &magic, 4), memcpy(at + 4, numbers, 4), memcpy(at + 8, &all, 8);
    memcpy(at + 16, kind, 4), memcpy(at + 20, &head, 4), memcpy(at + 24, &bytes, 8);
    memcpy(at + 40, version, 4), memcpy(at + 44, &target, 4), memcpy(at + 56, &flags, 8);
    memcpy(at + 80, text, strlen(text));
    return at;
}

/* Half of them are texts, which the server compiles, and half fat binaries, which it loads when they are used. */
static void *load(int library, int changed) {
    char *end = texts[library];
    end += sprintf(end, "%s", HEAD);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        int adds = 10 * library + kernel + 1000 * changed;
        end += sprintf(end, ENTRY, kernel, adds, kernel, adds);
    }
    void *loaded;
    void *image = library % 2 ? texts[library] : container(library);
    DO(CUDA("cuLibraryLoadData", &loaded, image, NULL, NULL, 0, NULL, NULL, 0));
    return loaded;
}

static uint64_t number;
static uint32_t expected;

static void launch(void *kernel, int adds) {
    void *parameters[] = { &number };
    DO(CUDA("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    expected += adds;
}

/* How a kernel fits, as libraries ask for many configurations. The answers are what the CPU device answers always. */
static void fits(void *kernel) {
    int blocks, first = -1;
    for (int question = 0; question < QUESTIONS; question++) {
        DO(CUDA("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", &blocks, kernel, 64, (size_t)(question * 4096), 0u));
        if (first < 0) first = blocks;
        if (blocks > first) { printf("%d blocks with more memory, and %d with less\n", blocks, first); exit(1); }
    }
    /* Within what every kernel may use. */
    IS(blocks > 0, 1);
}

static void settings(void *kernel) {
    int blocks, value;
    size_t before, behind;
    DO(CUDA("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", &blocks, kernel, 64, (size_t)SHARED, 0u));
    IS(blocks, 0);
    DO(CUDA("cuOccupancyAvailableDynamicSMemPerBlock", &before, kernel, 1, 64));
    DO(CUDA("cuFuncSetAttribute", kernel, 8, SHARED));
    DO(CUDA("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", &blocks, kernel, 64, (size_t)SHARED, 0u));
    IS(blocks > 0, 1);
    DO(CUDA("cuOccupancyAvailableDynamicSMemPerBlock", &behind, kernel, 1, 64));
    IS(before <= 48 << 10 && behind > before, 1);
    DO(CUDA("cuFuncGetAttribute", &value, 8, kernel));
    IS(value, SHARED);
}

static void *functions[LIBRARIES][KERNELS];
static void *asks(void *context) {
    DO(CUDA("cuCtxSetCurrent", context));
    for (int library = 0; library < LIBRARIES; library++) fits(functions[library][0]);
    return context;
}

/* One round trip, behind all that was asked for until now: what was asked for ahead is here, on however busy a machine. */
static void catch_up(void) {
    size_t available, all;
    DO(CUDA("cuMemGetInfo_v2", &available, &all));
}

static void start(void *context, const char *mode) {
    int changed = !strcmp(mode, "changed"), is_slow = !strcmp(mode, "slow"), count = strcmp(mode, "other") ? LIBRARIES : 1;
    pthread_t threads[2];
    uint64_t big;
    catch_up();
    DO(CUDA("cuMemAlloc_v2", &number, 4));
    DO(CUDA("cuMemsetD32_v2", number, 0, (size_t)1));
    expected = 0;
    for (int library = 0; library < count; library++) {
        void *loaded = load(library, changed);
        if (!library || is_slow) catch_up();
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            char name[16];
            void *found;
            uint64_t at;
            size_t bytes;
            sprintf(name, "kernel%d", kernel);
            DO(CUDA("cuLibraryGetKernel", &found, loaded, name));
            DO(CUDA("cuKernelGetFunction", &functions[library][kernel], found));
            if (kernel) continue;
            if (is_slow) catch_up();
            DO(CUDA("cuLibraryGetGlobal", &at, &bytes, loaded, "known1"));
            IS(bytes, 4);
        }
        int value;
        DO(CUDA("cuFuncGetAttribute", &value, 8, functions[library][2]));
        IS(value <= 48 << 10, 1);
        settings(functions[library][2]);
        for (int kernel = 0; kernel < KERNELS; kernel++) launch(functions[library][kernel], 10 * library + kernel + 1000 * changed);
        fits(functions[library][0]);
    }
    if (!strcmp(mode, "threads")) {
        for (int i = 0; i < 2; i++) if (pthread_create(&threads[i], NULL, asks, context)) exit(1);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    }
    if (!strcmp(mode, "full")) {
        /* All that there is said to be, less what was rounded up. */
        size_t available, all;
        DO(CUDA("cuMemGetInfo_v2", &available, &all));
        DO(CUDA("cuMemAlloc_v2", &big, available - (4 << 20)));
        DO(CUDA("cuMemFree_v2", big));
    }
    DO(CUDA("cuMemAlloc_v2", &big, (size_t)BIG));
    DO(CUDA("cuMemsetD32_v2", big, 7, (size_t)BIG / 4));
    void *missing;
    if (changed) IS(CUDA("cuLibraryGetKernel", &missing, load(0, 1), "missing"), 500);
    uint32_t back;
    DO(CUDA("cuMemcpyDtoH_v2", &back, number, sizeof back));
    IS(back, expected);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "plain";
    void *context;
    use_first_device(&context);
    start(context, mode);
    if (!strcmp(mode, "reset")) {
        DO(CUDA("cuDevicePrimaryCtxReset_v2", 0));
        DO(CUDA("cuDevicePrimaryCtxRetain", &context, 0));
        DO(CUDA("cuCtxSetCurrent", context));
        start(context, mode);
    }
    puts("right");
    return 0;
}
