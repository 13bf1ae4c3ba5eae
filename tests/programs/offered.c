/* A program that prints the memory of each of its GPUs in MiB, a line each, and whether it gets a part of it and not more than
 * that. It keeps its GPUs until its standard input ends. It needs no CUDA header. */
#include <stdint.h>
#include <unistd.h>

#include "driver.h"

int main(void) {
    int count;
    char byte;
    void *context;
    open_driver();
    DO(CUDA("cuInit", 0u));
    DO(CUDA("cuDeviceGetCount", &count));
    for (int device = 0; device < count; device++) {
        size_t total;
        uint64_t at;
        DO(CUDA("cuDeviceTotalMem_v2", &total, device));
        DO(CUDA("cuDevicePrimaryCtxRetain", &context, device));
        DO(CUDA("cuCtxSetCurrent", context));
        int gets = CUDA("cuMemAlloc_v2", &at, (size_t)1 << 20), gets_more = CUDA("cuMemAlloc_v2", &at, total);
        printf("%zu MiB: %s\n", total >> 20, gets == 0 && gets_more != 0 ? "a quota" : "no quota");
    }
    fflush(stdout);
    while (read(0, &byte, 1) > 0) { }
    return 0;
}
