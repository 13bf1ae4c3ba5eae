/* Functions of a program that write managed memory: while their context is reset, while modules come and go, and of another GPU
 * than their stream's. `functions resets`, `functions beside` and `functions brings`, on one GPU; `functions elsewhere`,
 * `functions unloads` and `functions apart`, on two. It needs no CUDA header. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define AHEAD 300

static volatile int *memory;

static void adds_one(void *unused) {
    (void)unused;
    usleep(20000);
    memory[1 << 18] += 1;
}

/* A reset finds a function that has not run, or is running, and much that it takes time to give up. */
static void resets(void) {
    void *context, *stream, *event;
    uint64_t at;
    for (int round = 0; round < 6; round++) {
        DO(CUDA("cuDevicePrimaryCtxRetain", &context, 0));
        DO(CUDA("cuCtxSetCurrent", context));
        DO(CUDA("cuMemAllocManaged", &at, (size_t)4 << 20, 1u));
        DO(CUDA("cuStreamCreate", &stream, 1u));
        for (int count = 0; count < (round % 2 ? AHEAD : 0); count++) DO(CUDA("cuEventCreate", &event, 2u));
        memory = (volatile int *)at;
        DO(CUDA("cuMemsetD32Async", at, 7u, (size_t)1 << 20, stream));
        if (round >= 2) DO(CUDA("cuStreamSynchronize", stream));
        DO(CUDA("cuLaunchHostFunc", stream, adds_one, NULL));
        DO(CUDA("cuDevicePrimaryCtxReset", 0));
    }
}

static void *context_of_all, *stream_of_all;

static void adds_soon(void *unused) {
    (void)unused;
    usleep(1000);
    memory[1 << 18] += 1;
}

static void *launches_until_it_may_not(void *code) {
    DO(CUDA("cuCtxSetCurrent", context_of_all));
    while (!(*(int *)code = CUDA("cuLaunchHostFunc", stream_of_all, adds_soon, NULL))) usleep(500);
    return NULL;
}

/* Another thread launches functions while the context is reset. */
static void beside(void) {
    uint64_t at;
    for (int round = 0; round < 12; round++) {
        pthread_t thread;
        int code = 0;
        DO(CUDA("cuDevicePrimaryCtxRetain", &context_of_all, 0));
        DO(CUDA("cuCtxSetCurrent", context_of_all));
        DO(CUDA("cuMemAllocManaged", &at, (size_t)4 << 20, 1u));
        DO(CUDA("cuStreamCreate", &stream_of_all, 1u));
        memory = (volatile int *)at;
        DO(CUDA("cuMemsetD32Async", at, 7u, (size_t)1 << 20, stream_of_all));
        if (pthread_create(&thread, NULL, launches_until_it_may_not, &code)) exit(1);
        usleep(5000 + round * 1300);
        DO(CUDA("cuDevicePrimaryCtxReset", 0));
        pthread_join(thread, NULL);
        /* CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_CONTEXT_IS_DESTROYED. */
        if (code != 1 && code != 201 && code != 400 && code != 709) { printf("the thread ended by %d\n", code); exit(1); }
    }
}

/* A context and a stream of each of two GPUs, and an event of the second. The first context is current then. */
static void of_two_gpus(void *contexts[2], void *streams[2], void **event) {
    for (int gpu = 0; gpu < 2; gpu++) {
        DO(CUDA("cuDevicePrimaryCtxRetain", &contexts[gpu], gpu));
        DO(CUDA("cuCtxSetCurrent", contexts[gpu]));
        DO(CUDA("cuStreamCreate", &streams[gpu], 1u));
    }
    DO(CUDA("cuEventCreate", event, 2u));
    DO(CUDA("cuCtxSetCurrent", contexts[0]));
}

/* A stream of GPU 1 stands for the function; one of GPU 0, whose memory it writes, waits for an event behind it. */
static void elsewhere(void) {
    void *contexts[2], *streams[2], *event;
    uint64_t at, copy;
    int got[16];
    of_two_gpus(contexts, streams, &event);
    DO(CUDA("cuMemAllocManaged", &at, (size_t)4 << 20, 1u));
    DO(CUDA("cuMemAlloc_v2", &copy, (size_t)64));
    memory = (volatile int *)at;
    DO(CUDA("cuMemsetD32Async", at, 7u, (size_t)1 << 20, streams[0]));
    DO(CUDA("cuStreamSynchronize", streams[0]));
    DO(CUDA("cuCtxSetCurrent", contexts[1]));
    DO(CUDA("cuLaunchHostFunc", streams[1], adds_one, NULL));
    DO(CUDA("cuEventRecord", event, streams[1]));
    DO(CUDA("cuCtxSetCurrent", contexts[0]));
    DO(CUDA("cuStreamWaitEvent", streams[0], event, 0u));
    DO(CUDA("cuMemcpyDtoDAsync_v2", copy, at + ((uint64_t)1 << 20), (size_t)64, streams[0]));
    DO(CUDA("cuStreamSynchronize", streams[0]));
    DO(CUDA("cuMemcpyDtoH_v2", got, copy, (size_t)64));
    if (got[0] != 8 || got[1] != 7) { printf("read %d and %d, and not 8 and 7\n", got[0], got[1]); exit(1); }
}

static const char module_text[] = ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry nothing()\n{ ret; }\n";

static volatile int begun, may_end, is_over;

static void waits_for_another(void *unused) {
    (void)unused;
    begun = 1;
    while (!may_end) usleep(500);
}

static void does_nothing(void *unused) { (void)unused; }

static void *loads_and_unloads_once(void *module) {
    void *other;
    DO(CUDA("cuCtxSetCurrent", context_of_all));
    DO(CUDA("cuModuleLoadData", &other, module_text));
    DO(CUDA("cuModuleUnload", module));
    return NULL;
}

/* A function waits for a thread that brings another one first, while a third thread loads and unloads. */
static void brings(void) {
    void *module, *other;
    uint64_t at;
    pthread_t thread;
    DO(CUDA("cuDevicePrimaryCtxRetain", &context_of_all, 0));
    DO(CUDA("cuCtxSetCurrent", context_of_all));
    DO(CUDA("cuMemAllocManaged", &at, (size_t)1 << 20, 1u));
    DO(CUDA("cuModuleLoadData", &module, module_text));
    DO(CUDA("cuStreamCreate", &stream_of_all, 1u));
    DO(CUDA("cuStreamCreate", &other, 1u));
    DO(CUDA("cuLaunchHostFunc", stream_of_all, waits_for_another, NULL));
    while (!begun) usleep(500);
    if (pthread_create(&thread, NULL, loads_and_unloads_once, module)) exit(1);
    usleep(100000);
    DO(CUDA("cuLaunchHostFunc", other, does_nothing, NULL));
    may_end = 1;
    pthread_join(thread, NULL);
}

static void adds_sooner_or_later(void *unused) {
    (void)unused;
    usleep(rand() % 300);
    memory[1 << 18] += 1;
}

static void *loads_and_unloads(void *unused) {
    void *module;
    DO(CUDA("cuCtxSetCurrent", context_of_all));
    while (!is_over) {
        DO(CUDA("cuModuleLoadData", &module, module_text));
        DO(CUDA("cuModuleUnload", module));
    }
    return unused;
}

/* Modules come and go on GPU 0, while functions of GPU 1's stream write its memory, and its stream waits for them. */
static void unloads(void) {
    void *contexts[2], *streams[2], *event;
    uint64_t at;
    pthread_t thread;
    of_two_gpus(contexts, streams, &event);
    DO(CUDA("cuMemAllocManaged", &at, (size_t)4 << 20, 1u));
    memory = (volatile int *)at;
    context_of_all = contexts[0];
    DO(CUDA("cuMemsetD32Async", at, 0u, (size_t)1 << 20, streams[0]));
    DO(CUDA("cuStreamSynchronize", streams[0]));
    if (pthread_create(&thread, NULL, loads_and_unloads, NULL)) exit(1);
    for (int round = 0; round < 1500; round++) {
        DO(CUDA("cuCtxSetCurrent", contexts[1]));
        DO(CUDA("cuLaunchHostFunc", streams[1], adds_sooner_or_later, NULL));
        DO(CUDA("cuEventRecord", event, streams[1]));
        DO(CUDA("cuCtxSetCurrent", contexts[0]));
        DO(CUDA("cuStreamWaitEvent", streams[0], event, 0u));
        DO(CUDA("cuMemsetD32Async", at, round, (size_t)1 << 10, streams[0]));
        DO(CUDA("cuStreamSynchronize", streams[0]));
        if (round % 64 == 0 && memory[1 << 18] != round + 1) { printf("read %d, and not %d\n", memory[1 << 18], round + 1); exit(1); }
    }
    is_over = 1;
    pthread_join(thread, NULL);
}

/* A module comes and goes on GPU 0 while a function of GPU 1 goes on, for which nothing on GPU 0 waits. */
static void apart(void) {
    void *contexts[2], *stream, *module;
    uint64_t at;
    for (int gpu = 0; gpu < 2; gpu++) DO(CUDA("cuDevicePrimaryCtxRetain", &contexts[gpu], gpu));
    DO(CUDA("cuCtxSetCurrent", contexts[0]));
    DO(CUDA("cuMemAllocManaged", &at, (size_t)1 << 20, 1u));
    DO(CUDA("cuMemsetD32_v2", at, 7u, (size_t)1 << 10));
    DO(CUDA("cuCtxSetCurrent", contexts[1]));
    DO(CUDA("cuStreamCreate", &stream, 1u));
    DO(CUDA("cuLaunchHostFunc", stream, waits_for_another, NULL));
    while (!begun) usleep(500);
    DO(CUDA("cuCtxSetCurrent", contexts[0]));
    DO(CUDA("cuModuleLoadData", &module, module_text));
    DO(CUDA("cuModuleUnload", module));
    may_end = 1;
    DO(CUDA("cuCtxSetCurrent", contexts[1]));
    DO(CUDA("cuStreamSynchronize", stream));
}

int main(int count, char **words) {
    open_driver();
    DO(CUDA("cuInit", 0u));
    if (count > 1 && !strcmp(words[1], "elsewhere")) elsewhere();
    else if (count > 1 && !strcmp(words[1], "beside")) beside();
    else if (count > 1 && !strcmp(words[1], "brings")) brings();
    else if (count > 1 && !strcmp(words[1], "unloads")) unloads();
    else if (count > 1 && !strcmp(words[1], "apart")) apart();
    else resets();
    printf("PASSED\n");
    return 0;
}
