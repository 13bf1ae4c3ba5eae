/* What libraries do where no context is current, and when the process ends: a thread asks for the number of no context, as cuBLAS
 * does by a hidden table; and a function calls the driver at the process's end, when its threads' locals are gone, as cuDNN does.
 * It needs no CUDA header. */
#include <pthread.h>
#include <stdint.h>

#include "driver.h"

static void *context;

static void number_of(void *of, uint32_t wanted) {
    static const unsigned char TABLE[16] = { 0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2 };
    void **table;
    uint32_t number = 99;
    DO(CUDA("cuGetExportTable", &table, TABLE));
    DO(((int (*)(void *, uint32_t *))table[4])(of, &number));
    if (number != wanted) { printf("number: %u, and not %u\n", number, wanted); exit(1); }
}

static void *thread(void *unused) {
    number_of(NULL, 0);
    number_of(context, 1);
    return unused;
}

static void at_the_end(void) {
    void *current;
    uint64_t at;
    CUDA("cuCtxGetCurrent", &current);
    if (!CUDA("cuMemAlloc_v2", &at, (size_t)4096)) CUDA("cuMemFree_v2", at);
    CUDA("cuCtxSynchronize");
    printf("right\n");
}

int main(void) {
    pthread_t other;
    uint64_t at;
    uint32_t back;
    atexit(at_the_end);
    open_driver();
    DO(CUDA("cuInit", 0u));
    DO(CUDA("cuDevicePrimaryCtxRetain", &context, 0));
    if (pthread_create(&other, NULL, thread, NULL)) exit(1);
    pthread_join(other, NULL);
    DO(CUDA("cuCtxSetCurrent", context));
    number_of(NULL, 0);
    DO(CUDA("cuMemAlloc_v2", &at, (size_t)4096));
    DO(CUDA("cuMemsetD32_v2", at, 7u, (size_t)1));
    DO(CUDA("cuMemcpyDtoH_v2", &back, at, (size_t)4));
    return back != 7;
}
