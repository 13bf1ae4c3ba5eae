// Kernels of the first tests: plain arithmetic, shared memory, divergence, calls, printf.
#include <cstdio>

extern "C" __global__ void vecadd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

template <int TILE> __device__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        as[y][x] = a[row * n + t + x];
        bs[y][x] = b[(t + y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void matmul16(const float *a, const float *b, float *c, int n) { matmul<16>(a, b, c, n); }
extern "C" __global__ void matmul32(const float *a, const float *b, float *c, int n) { matmul<32>(a, b, c, n); }

extern "C" __global__ void reduce(const float *in, float *out, int n) {
    __shared__ float part[32];
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
        if (threadIdx.x == 0) atomicAdd(out, v);
    }
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n) {
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}

extern "C" __global__ void mandelbrot(int *out, int size, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    double cr = -2.0 + 3.0 * x / size, ci = -1.5 + 3.0 * y / size, zr = 0, zi = 0;
    int i = 0;
    while (i < limit && zr * zr + zi * zi < 4.0) {
        double t = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = t;
        i++;
    }
    out[y * size + x] = i;
}

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ int (*table[2])(int) = {twice, square};
extern "C" __global__ void calls(int *out) {
    int i = threadIdx.x;
    out[i] = fib(i % 12) + table[i & 1](i);
}

extern "C" __global__ void say(int x) { printf("thread %d of %s: %5.2f|%x\n", threadIdx.x, "warp", threadIdx.x * 0.5, x); }

__device__ int lock_word;
extern "C" __global__ void spinlock(int *counter) {
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock_word, 0, 1) == 0) {
            *(volatile int *)counter += 1;
            __threadfence();
            atomicExch(&lock_word, 0);
            done = true;
        }
    }
}

struct Big { int a[20]; };
extern "C" __global__ void locals(int *out, Big big) {
    int mine[16];
    for (int i = 0; i < 16; i++) mine[i] = i * threadIdx.x;
    out[threadIdx.x] = mine[out[threadIdx.x] & 15] + big.a[threadIdx.x % 20];
}
