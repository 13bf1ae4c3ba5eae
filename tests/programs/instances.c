/* A program that prints of each of its GPUs, 8 at most, the name, the id's last byte, the memory in MiB, and whether it can fill and
 * read its memory, a line each; then the pairs of GPUs with peer access, and whether a copy from the first to the last one is right. It
 * keeps its GPUs until its standard input ends. It needs no CUDA header. */
#include <stdint.h>
#include <unistd.h>

#include "driver.h"

enum { MOST = 8, BYTES = 1 << 20 };

static uint32_t last_word(uint64_t at) {
    uint32_t word = 0;
    DO(CUDA("cuMemcpyDtoH_v2", &word, at + (BYTES - 4), (size_t)4));
    return word;
}

int main(void) {
    int count, reached = 0;
    char byte;
    void *contexts[MOST];
    uint64_t memory[MOST];
    open_driver();
    DO(CUDA("cuInit", 0u));
    DO(CUDA("cuDeviceGetCount", &count));
    if (count < 1 || count > MOST) return 1;
    for (int device = 0; device < count; device++) {
        char name[64];
        unsigned char uuid[16];
        size_t total;
        DO(CUDA("cuDeviceGetName", name, 64, device));
        DO(CUDA("cuDeviceGetUuid", uuid, device));
        DO(CUDA("cuDeviceTotalMem_v2", &total, device));
        DO(CUDA("cuDevicePrimaryCtxRetain", &contexts[device], device));
        DO(CUDA("cuCtxSetCurrent", contexts[device]));
        DO(CUDA("cuMemAlloc_v2", &memory[device], (size_t)BYTES));
        DO(CUDA("cuMemsetD32_v2", memory[device], 7u + device, (size_t)BYTES / 4));
        const char *outcome = last_word(memory[device]) == 7u + device ? "right" : "wrong";
        printf("%s, %02x, %zu MiB, %s\n", name, uuid[15], total >> 20, outcome);
    }
    for (int pair = 0; pair < count * count; pair++) {
        int access = 0;
        if (pair / count == pair % count) continue;
        DO(CUDA("cuDeviceCanAccessPeer", &access, pair / count, pair % count));
        reached += access;
    }
    int last = count - 1;
    DO(CUDA("cuMemcpyPeer", memory[last], contexts[last], memory[0], contexts[0], (size_t)BYTES));
    printf("pairs: %d, copy: %s\n", reached, last_word(memory[last]) == 7 ? "right" : "wrong");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) { }
    return 0;
}
