// Rare but real constructs: alloca, virtual functions, switch, 128-bit integers, device new, byte arithmetic, groups of
// warps.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void stack(int *out) {
    int n = threadIdx.x % 5 + 1;
    int *mine = (int *)alloca(n * sizeof(int));
    for (int i = 0; i < n; i++) mine[i] = i * threadIdx.x;
    int sum = 0;
    for (int i = 0; i < n; i++) sum += mine[(i * 7) % n];
    out[threadIdx.x] = sum;
}

struct Shape {
    int size;
    __device__ Shape(int size) : size(size) {}
    virtual __device__ int area() { return size; }
};
struct Square : Shape {
    __device__ Square(int size) : Shape(size) {}
    __device__ int area() override { return size * size; }
};
extern "C" __global__ void virtuals(int *out) {
    Shape *shape = threadIdx.x % 3 ? new Shape(threadIdx.x) : (Shape *)new Square(threadIdx.x);
    out[threadIdx.x] = shape->area();
    delete shape;
}

extern "C" __global__ void bytes(const unsigned *a, const unsigned *b, unsigned *out) {
    int i = threadIdx.x;
    out[2 * i] = __vabsdiffu4(a[i], b[i]);
    out[2 * i + 1] = __vsadu4(a[i], b[i]);
}

extern "C" __global__ void wide(const long long *a, const long long *b, long long *out) {
    int i = threadIdx.x;
    __int128 product = (__int128)a[i] * b[i];
    product /= 1000003;
    out[2 * i] = (long long)product;
    out[2 * i + 1] = (long long)(product >> 64);
}

extern "C" __global__ void switches(int *out) {
    int v = threadIdx.x;
    switch (out[v]) {
        case 0: v += 5; break;
        case 1: v *= 3; break;
        case 2: v -= 7; break;
        case 3: v ^= 9; break;
        case 4: v = -v; break;
        case 5: v <<= 2; break;
        case 6: v /= 2; break;
        case 7: v %= 3; break;
        default: v = 1000;
    }
    out[threadIdx.x] = v;
}

// Tiles of more than a warp synchronise through the shared memory that is reserved for them.
extern "C" __global__ void large_tiles(int *out) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<64>(block);
    int value = (int)block.thread_rank();
    int sum = cg::reduce(tile, value, cg::plus<int>());
    out[block.thread_rank()] = sum;
}
