// Ordinary device code for nvcc: calls, recursion, function pointers, virtual functions, switch tables, structs by
// value, initialised data. Also managed and extern shared memory, printf, assert, shuffles, inline assembly.
#include <cassert>
#include <cstdio>

struct Shape {
    float scale;
    int sides[7];
};

__constant__ float weights[4] = {1.5f, -2.0f, 3e-30f, 0.0f};
__device__ int counter = -5;
__managed__ int shared_count;
__device__ double grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ const char *words[] = {"one", "two"};
extern __shared__ float scratch[];

__device__ __noinline__ float twice(float x) { return x * 2; }
__device__ __noinline__ float thrice(float x) { return x * 3; }
__device__ float (*choices[2])(float) = {twice, thrice};
__device__ __noinline__ int collatz(int n) { return n <= 1 ? 0 : 1 + collatz(n % 2 ? 3 * n + 1 : n / 2); }

struct Base {
    virtual __device__ int of(int x) = 0;
};
struct Times : Base {
    int factor;
    __device__ int of(int x) override { return x * factor; }
};
struct Said : Base {
    __device__ int of(int x) override { printf("x is %d\n", x); return x + 1; }
};

extern "C" __global__ void __launch_bounds__(256, 2)
    features(float *out, const float *__restrict__ in, Shape shape, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    Said said;
    Times times;
    times.factor = n;
    Base *base = n > 3 ? (Base *)&said : (Base *)&times;
    assert(n < 100);
    switch (n) {
    case 0: out[i] = weights[i & 3]; break;
    case 1: out[i] = tile[3]; break;
    case 2: out[i] = __sinf(tile[1]); break;
    case 3: out[i] = shape.sides[n & 3] * shape.scale; break;
    case 4: out[i] = scratch[2]; break;
    case 5: out[i] = choices[i & 1](3.0f); break;
    case 6: out[i] = words[i & 1][0]; break;
    case 7: out[i] = collatz(i); break;
    default: out[i] = __shfl_sync(~0u, tile[i & 255], n) + base->of(n) + grid[n & 1][n];
    }
    if (__any_sync(~0u, n > i)) atomicAdd(&counter, 1);
    int swapped;
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, (1<<4)+2; @p mov.u32 %0, WARP_SZ; @!p mov.u32 %0, 0; }"
                 : "=r"(swapped) : "r"(n));
    shared_count = swapped;
}
