// Kernels with the character of search trees: addresses that depend on loads, lanes that part, blocks that meet at barriers.
// nvcc -ptx -O2 -std=c++17 -arch=sm_90 tree.cu

constexpr unsigned ALL = 0xffffffff;
constexpr int KEYS = 16;  // keys of a node, each beside its child or value: half a warp holds keys, half children

// A warp takes its lanes' queries one after the other: 32 words of a node, the last lane first, by ballot and shuffle.
extern "C" __global__ void search_by_warps(const unsigned *nodes, unsigned root, const unsigned *queries,
                                           unsigned *results, unsigned count)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % 32;
    unsigned query = thread < count ? queries[thread] : 0;
    unsigned result = 0;
    bool open = thread < count;
    unsigned node = root;
    while (unsigned work = __ballot_sync(ALL, open)) {
        int owner = __ffs(work) - 1;
        unsigned key = __shfl_sync(ALL, query, owner);
        unsigned word = nodes[node * 32 + 31 - lane];
        bool is_key = lane % 2 == 0;
        unsigned fits = __ballot_sync(ALL, is_key && (word & 0x7fffffff) <= key);
        int at = __ffs(fits) - 1;
        if (at < 0) {
            if (lane == owner) open = false;
            node = root;
            continue;
        }
        unsigned found = __shfl_sync(ALL, word, at);
        unsigned below = __shfl_sync(ALL, word, at + 1);
        if (found & 0x80000000) {  // a leaf
            if (lane == owner) {
                result = (found & 0x7fffffff) == key ? below : 0;
                open = false;
            }
            node = root;
        } else {
            node = below;
        }
    }
    if (thread < count) results[thread] = result;
}

// Each thread goes its own way through the same tree.
extern "C" __global__ void search_by_threads(const unsigned *nodes, unsigned root, const unsigned *queries,
                                             unsigned *results, unsigned count)
{
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    unsigned key = queries[thread], node = root, result = 0;
    for (;;) {
        const unsigned *words = nodes + node * 32;
        int at = 0;
        while (at < KEYS && (words[31 - 2 * at] & 0x7fffffff) > key) ++at;
        if (at == KEYS) break;
        unsigned found = words[31 - 2 * at], below = words[30 - 2 * at];
        if (found & 0x80000000) {
            result = (found & 0x7fffffff) == key ? below : 0;
            break;
        }
        node = below;
    }
    results[thread] = result;
}

// A block looks for one key in a sorted array: each thread has a boundary, and the block meets at every level.
extern "C" __global__ void search_by_blocks(const unsigned *keys, unsigned count, const unsigned *queries,
                                            unsigned *results)
{
    __shared__ unsigned low;
    unsigned query = queries[blockIdx.x], width = count;
    if (threadIdx.x == 0) low = 0;
    __syncthreads();
    while (width > 1) {
        unsigned part = (width + blockDim.x - 1) / blockDim.x;
        unsigned start = low + threadIdx.x * part, end = start + part;
        unsigned last = low + width;
        __syncthreads();
        if (start < last && keys[start] <= query && (end >= last || keys[end] > query)) low = start;
        __syncthreads();
        width = min(part, count - low);
    }
    if (threadIdx.x == 0) results[blockIdx.x] = keys[low] == query ? low + 1 : 0;
}

// Every warp counts itself, waits by the clock, and says how many had counted themselves by then.
extern "C" __global__ void waits(unsigned *counted, unsigned *seen, long long nanoseconds)
{
    if (threadIdx.x % 32 == 0) atomicAdd(counted, 1);
    long long start = clock64();
    while (clock64() - start < nanoseconds) { }
    if (threadIdx.x % 32 == 0) seen[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = *(volatile unsigned *)counted;
}
