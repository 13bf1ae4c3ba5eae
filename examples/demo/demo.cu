// The kernels `floe demo` runs. Compiled to demo.ptx by
//   nvcc -ptx -arch=compute_75 demo.cu -o demo.ptx && sed -i "s/^.version .*/.version 7.0/" demo.ptx
// for an old architecture and an old PTX version (nothing newer is used), so that any GPU since 2018 and the CPU device can take them.

// c = a + b, element by element.
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// c = a · b for square matrices whose size is a multiple of 16, tile by tile through shared memory.
extern "C" __global__ void matrix_multiply(const float *a, const float *b, float *c, unsigned n) {
    constexpr unsigned TILE = 16;
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    unsigned row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (unsigned first = 0; first < n; first += TILE) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + first + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + column];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// Counts points of a unit square that lie in the quarter circle. Each thread draws `draws` points from its own
// generator (xorshift, seeded by the thread's number), so the count is the same on every device.
extern "C" __global__ void count_hits(unsigned long long *hits, unsigned draws) {
    __shared__ unsigned block_hits;
    if (threadIdx.x == 0) block_hits = 0;
    __syncthreads();
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = thread * 2654435761u + 1u;
    unsigned inside = 0;
    for (unsigned i = 0; i < draws; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        unsigned long long x = state >> 12;
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        unsigned long long y = state >> 12;
        inside += x * x + y * y < (1ull << 40);
    }
    atomicAdd(&block_hits, inside);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(hits, (unsigned long long)block_hits);
}
