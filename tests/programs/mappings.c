/* Threads that map memory of their own at the same addresses, each as soon as another has unmapped its own there. Each fills it and
 * reads it back. Out: "right" and 0, or what is wrong and 1. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "driver.h"

enum { PINNED = 1, ON_DEVICE = 1, READ_WRITE = 3, THREADS = 3, ROUNDS = 100 };

typedef struct { int type, id; } location;
typedef struct { int type, handles; location place; void *meta_data; unsigned char flags[8]; } properties;
typedef struct { location place; int flags; } access;

static const size_t BYTES = (size_t)8 << 20;
static void *context;
static uint64_t at;

static void *maps(void *number) {
    void *stream;
    uint64_t memory;
    unsigned char own = (unsigned char)(uintptr_t)number, read = 0;
    properties wanted = { PINNED, 0, { ON_DEVICE, 0 }, 0, { 0 } };
    access access_of_all = { { ON_DEVICE, 0 }, READ_WRITE };
    DO(CUDA("cuCtxSetCurrent", context));
    DO(CUDA("cuMemCreate", &memory, BYTES, &wanted, (uint64_t)0));
    DO(CUDA("cuStreamCreate", &stream, 1u));
    for (int round = 0; round < ROUNDS; round++) {
        while (CUDA("cuMemMap", at, BYTES, (size_t)0, memory, (uint64_t)0)) sched_yield();
        DO(CUDA("cuMemSetAccess", at, BYTES, &access_of_all, (size_t)1));
        DO(CUDA("cuMemsetD8Async", at, (unsigned)own, BYTES, stream));
        DO(CUDA("cuMemcpyDtoHAsync_v2", &read, at + BYTES - 1, (size_t)1, stream));
        DO(CUDA("cuStreamSynchronize", stream));
        if (read != own) { printf("thread %d read: %d\n", own, read); exit(1); }
        DO(CUDA("cuMemUnmap", at, BYTES));
    }
    DO(CUDA("cuMemRelease", memory));
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    use_first_device(&context);
    DO(CUDA("cuMemAddressReserve", &at, BYTES, (size_t)0, (uint64_t)0, (uint64_t)0));
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], 0, maps, (void *)(i + 1))) return 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    puts("right");
    return 0;
}
