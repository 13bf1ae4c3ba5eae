/* Copies out of pinned memory that kernels write: each copy has what the kernels ahead of it wrote, and what the program wrote before
 * it asked. With `registered` the memory is the program's own. It needs no CUDA header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { WORDS = 4096, ROUNDS = 200 };

/* CUDA_MEMCPY2D. */
struct flat_end { size_t x, y; unsigned kind; const void *host; uint64_t device; void *array; size_t pitch; };
struct rectangle { struct flat_end from, to; size_t width, height; };

static const char TEXT[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry add(.param .u64 at)\n{\n.reg .u64 %rd<3>; .reg .u32 %r<2>;\n"
    "ld.param.u64 %rd1, [at]; cvta.to.global.u64 %rd2, %rd1;\n"
    "ld.global.u32 %r1, [%rd2]; add.u32 %r1, %r1, 1; st.global.u32 [%rd2], %r1; ret;\n}\n";

int main(int count, char **arguments) {
    void *context, *stream, *module, *function;
    uint32_t *host, *home = malloc((size_t)ROUNDS * WORDS * 4);
    uint64_t place, device;
    size_t bytes = WORDS * 4;
    use_first_device(&context);
    DO(CUDA("cuStreamCreate", &stream, 1u));
    DO(CUDA("cuModuleLoadData", &module, TEXT));
    DO(CUDA("cuModuleGetFunction", &function, module, "add"));
    if (count > 1 && !strcmp(arguments[1], "registered")) {
        host = malloc(bytes);
        DO(CUDA("cuMemHostRegister_v2", host, bytes, 2u));
    } else {
        DO(CUDA("cuMemHostAlloc", &host, bytes, 0u));
    }
    memset(host, 0, bytes);
    DO(CUDA("cuMemHostGetDevicePointer_v2", &place, host, 0u));
    DO(CUDA("cuMemAlloc_v2", &device, (size_t)ROUNDS * bytes));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        void *parameters[] = { &place };
        host[1 + round] = 7 + round;
        DO(CUDA("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, parameters, (void *)0));
        /* Every other copy is of rows with a gap. */
        if (round % 2) {
            struct rectangle box = { .from = { .kind = 1, .host = host, .pitch = bytes / 4 },
                                     .to = { .kind = 2, .device = device + round * bytes, .pitch = bytes / 4 },
                                     .width = bytes / 4 - 64, .height = 4 };
            DO(CUDA("cuMemcpy2DAsync_v2", &box, stream));
        } else {
            DO(CUDA("cuMemcpyHtoDAsync_v2", device + round * bytes, host, bytes, stream));
        }
    }
    DO(CUDA("cuStreamSynchronize", stream));
    DO(CUDA("cuMemcpyDtoH_v2", home, device, (size_t)ROUNDS * bytes));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t *copy = home + round * WORDS;
        if (copy[0] != round + 1) { printf("copy %u: %u kernels\n", round, copy[0]); return 1; }
        for (uint32_t word = 0; word <= round; word++)
            if (copy[1 + word] != 7 + word) { printf("copy %u: word %u is %u\n", round, word, copy[1 + word]); return 1; }
    }
    if (host[0] != ROUNDS) { printf("at home: %u kernels\n", host[0]); return 1; }
    return 0;
}
