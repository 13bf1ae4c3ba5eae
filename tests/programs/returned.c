/* Memory of one GPU that another one reaches as well, unmapped and released again and again: at once there is as much for the next
 * block, and for an array. Two devices with 512 MiB each. Out: "right" and 0, or what is wrong and 1. */
#include <stdint.h>

#include "driver.h"

enum { PINNED = 1, DESCRIPTOR = 1, ON_DEVICE = 1, READ_WRITE = 3, FLOAT = 0x20, ROUNDS = 25 };

typedef struct { int type, id; } location;
typedef struct { int type, handles; location place; void *meta_data; unsigned char flags[8]; } properties;
typedef struct { location place; int flags; } access;
typedef struct { size_t width, height; int format; unsigned channels; } shape;

static const size_t BYTES = (size_t)400 << 20;

int main(void) {
    void *contexts[2], *array;
    uint64_t at, memory, other;
    use_first_device(&contexts[0]);
    DO(CUDA("cuDevicePrimaryCtxRetain", &contexts[1], 1));
    DO(CUDA("cuMemAddressReserve", &at, BYTES, (size_t)0, (uint64_t)0, (uint64_t)0));
    properties wanted = { PINNED, DESCRIPTOR, { ON_DEVICE, 0 }, 0, { 0 } };
    access both[] = { { { ON_DEVICE, 0 }, READ_WRITE }, { { ON_DEVICE, 1 }, READ_WRITE } };
    shape side = { 10000, 10000, FLOAT, 1 };
    for (int round = 0; round < ROUNDS; round++) {
        DO(CUDA("cuMemCreate", &memory, BYTES, &wanted, (uint64_t)0));
        DO(CUDA("cuMemMap", at, BYTES, (size_t)0, memory, (uint64_t)0));
        DO(CUDA("cuMemSetAccess", at, BYTES, both, (size_t)2));
        DO(CUDA("cuCtxSetCurrent", contexts[1]));
        DO(CUDA("cuMemAlloc_v2", &other, (size_t)4096));
        DO(CUDA("cuMemsetD8_v2", at, 1u, (size_t)4096));
        DO(CUDA("cuMemFree_v2", other));
        DO(CUDA("cuCtxSetCurrent", contexts[0]));
        DO(CUDA("cuMemUnmap", at, BYTES));
        DO(CUDA("cuMemRelease", memory));
        if (round % 2) {
            DO(CUDA("cuArrayCreate_v2", &array, &side));
            DO(CUDA("cuArrayDestroy", array));
        }
    }
    puts("right");
    return 0;
}
