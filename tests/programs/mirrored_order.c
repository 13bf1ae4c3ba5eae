/* Copies out of pinned memory have what the program wrote there before them, where nothing but the order of its own writes says so. It
 * needs no CUDA header.
 *   mirrored_order word|other
 * word: a stream waits for a word, which the program writes behind the data that the stream then copies. The word lies before the
 * data, and behind it. other: a stream of one device copies to the memory of another; kernels of both reach the pinned memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { WORDS = 64 << 10, BYTES = WORDS * 4, ROUNDS = 100 };

static volatile uint32_t *mapped(size_t bytes) {
    void *made;
    uint64_t place;
    DO(CUDA("cuMemHostAlloc", &made, bytes, 3u));
    memset(made, 0, bytes);
    DO(CUDA("cuMemHostGetDevicePointer_v2", &place, made, 0u));
    return made;
}

static void is(uint32_t round, size_t word, uint32_t value, uint32_t wanted) {
    if (value == wanted) return;
    printf("round %u: word %zu is %u, and not %u\n", round, word, value, wanted);
    exit(1);
}

static void word(void *stream) {
    volatile uint32_t *host = mapped(BYTES);
    uint32_t *home = malloc(BYTES);
    uint64_t device;
    DO(CUDA("cuMemAlloc_v2", &device, (size_t)BYTES));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        size_t at = round % 2 ? 0 : WORDS - 1;
        DO(CUDA("cuStreamWaitValue32_v2", stream, (uint64_t)(host + at), round, 1u));
        DO(CUDA("cuMemcpyHtoDAsync_v2", device, host, (size_t)BYTES, stream));
        for (size_t each = 1; each < WORDS - 1; each++) host[each] = round;
        __atomic_store_n(host + at, round, __ATOMIC_RELEASE);
        DO(CUDA("cuStreamSynchronize", stream));
        DO(CUDA("cuMemcpyDtoH_v2", home, device, (size_t)BYTES));
        for (size_t each = 1; each < WORDS - 1; each++) is(round, each, home[each], round);
        is(round, at, home[at], round);
    }
}

static void other(void *stream, void *first) {
    volatile uint32_t *host = mapped(ROUNDS * 4);
    uint32_t home[ROUNDS];
    uint64_t device, place;
    void *second;
    DO(CUDA("cuDevicePrimaryCtxRetain", &second, 1));
    DO(CUDA("cuCtxSetCurrent", second));
    DO(CUDA("cuMemHostGetDevicePointer_v2", &place, host, 0u));
    DO(CUDA("cuMemAlloc_v2", &device, sizeof home * ROUNDS));
    DO(CUDA("cuCtxSetCurrent", first));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        host[round] = round + 1;
        DO(CUDA("cuMemcpyHtoDAsync_v2", device + round * sizeof home, host, sizeof home, stream));
        /* Nothing is outstanding when the next copy comes. */
        DO(CUDA("cuStreamSynchronize", stream));
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        DO(CUDA("cuMemcpyDtoH_v2", home, device + round * sizeof home, sizeof home));
        for (uint32_t each = 0; each < ROUNDS; each++) is(round, each, home[each], each <= round ? each + 1 : 0);
    }
}

int main(int count, char **arguments) {
    void *context, *stream;
    use_first_device(&context);
    DO(CUDA("cuStreamCreate", &stream, 1u));
    if (count > 1 && !strcmp(arguments[1], "other")) other(stream, context);
    else word(stream);
    puts("right");
    return 0;
}
