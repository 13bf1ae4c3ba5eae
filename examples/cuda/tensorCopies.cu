// Copies by the tensor memory accelerator (TMA): boxes of tensors of one to five dimensions to shared memory and back,
// with what lies outside filled, units swizzled and elements stepped over; boxes added to a tensor; plain bulk copies; and a
// sum whose next tile is on its way while the last one is added. Plain loops on the host say what must come out.
#include "check_driver.h"

#include <cstring>

constexpr int AXES = 5, THREADS = 128;
constexpr unsigned SHARED = 16384;

struct Coordinates {
    int at[AXES];
};

__device__ unsigned shared_address(const void *pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ void init_barrier(uint64_t *barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ void expect_bytes(uint64_t *barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ void wait(uint64_t *barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
    } while (!over);
}

// What this thread and, behind a barrier of the block, the others wrote to shared memory is seen by copies.
__device__ void before_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ void wait_for_stores() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <int N>
__device__ void load_box(void *to, const CUtensorMap *map, const Coordinates &c, uint64_t *barrier) {
    const unsigned target = shared_address(to), signal = shared_address(barrier);
    const uint64_t from = reinterpret_cast<uint64_t>(map);
    if constexpr (N == 1)
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], "
                     "[%2];" ::"r"(target), "l"(from), "r"(signal), "r"(c.at[0]) : "memory");
    if constexpr (N == 2)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
                     "[%2];" ::"r"(target), "l"(from), "r"(signal), "r"(c.at[0]), "r"(c.at[1]) : "memory");
    if constexpr (N == 3)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                     "[%1, {%3, %4, %5}], [%2];" ::"r"(target), "l"(from), "r"(signal), "r"(c.at[0]), "r"(c.at[1]),
                     "r"(c.at[2]) : "memory");
    if constexpr (N == 4)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                     "[%1, {%3, %4, %5, %6}], [%2];" ::"r"(target), "l"(from), "r"(signal), "r"(c.at[0]),
                     "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]) : "memory");
    if constexpr (N == 5)
        asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                     "[%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(target), "l"(from), "r"(signal), "r"(c.at[0]),
                     "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]) : "memory");
}

template <int N>
__device__ void store_box(const CUtensorMap *map, const Coordinates &c, const void *from) {
    const unsigned source = shared_address(from);
    const uint64_t to = reinterpret_cast<uint64_t>(map);
    if constexpr (N == 1)
        asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];" ::"l"(to),
                     "r"(source), "r"(c.at[0]) : "memory");
    if constexpr (N == 2)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(to),
                     "r"(source), "r"(c.at[0]), "r"(c.at[1]) : "memory");
    if constexpr (N == 3)
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(to),
                     "r"(source), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]) : "memory");
    if constexpr (N == 4)
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(to),
                     "r"(source), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]) : "memory");
    if constexpr (N == 5)
        asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(to),
                     "r"(source), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]) : "memory");
}

// Loads a box and gives the shared memory it lies in.
template <int N>
__global__ void load(const __grid_constant__ CUtensorMap map, Coordinates c, unsigned bytes, unsigned char *out) {
    __shared__ alignas(1024) unsigned char box[SHARED];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(&map)) : "memory");
        init_barrier(&barrier);
        expect_bytes(&barrier, bytes);
        load_box<N>(box, &map, c, &barrier);
    }
    __syncthreads();
    wait(&barrier, 0);
    for (unsigned i = threadIdx.x; i < SHARED; i += THREADS) out[i] = box[i];
}

template <int N>
__global__ void store(const __grid_constant__ CUtensorMap map, Coordinates c, const unsigned char *in) {
    __shared__ alignas(1024) unsigned char box[SHARED];
    for (unsigned i = threadIdx.x; i < SHARED; i += THREADS) box[i] = in[i];
    before_copies();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_box<N>(&map, c, box);
        wait_for_stores();
    }
}

enum Operator { ADD, MIN, MAX, OR };

// Every block combines the same box with the tensor.
template <Operator OPERATOR, typename T>
__global__ void combine(const __grid_constant__ CUtensorMap map, Coordinates c, const T *in, int count) {
    __shared__ alignas(128) T box[1024];
    for (int i = threadIdx.x; i < count; i += THREADS) box[i] = in[i];
    before_copies();
    __syncthreads();
    if (threadIdx.x != 0) return;
    const uint64_t to = reinterpret_cast<uint64_t>(&map);
    const unsigned from = shared_address(box);
    if constexpr (OPERATOR == ADD)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                         to), "r"(from), "r"(c.at[0]), "r"(c.at[1]) : "memory");
    if constexpr (OPERATOR == MIN)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.bulk_group [%0, {%2, %3}], [%1];" ::"l"(to),
                     "r"(from), "r"(c.at[0]), "r"(c.at[1]) : "memory");
    if constexpr (OPERATOR == MAX)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.bulk_group [%0, {%2, %3}], [%1];" ::"l"(to),
                     "r"(from), "r"(c.at[0]), "r"(c.at[1]) : "memory");
    if constexpr (OPERATOR == OR)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.or.bulk_group [%0, {%2, %3}], [%1];" ::"l"(to),
                     "r"(from), "r"(c.at[0]), "r"(c.at[1]) : "memory");
    wait_for_stores();
}

// Doubles `count` numbers, then adds them to `sums` from every block: both ways by plain bulk copies.
__global__ void plain(const unsigned *in, unsigned *out, unsigned *sums, unsigned count) {
    __shared__ alignas(16) unsigned numbers[1024];
    __shared__ uint64_t barrier;
    const unsigned bytes = count * sizeof(unsigned);
    if (threadIdx.x == 0) {
        init_barrier(&barrier);
        expect_bytes(&barrier, bytes);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(numbers)), "l"(in + blockIdx.x * count), "r"(bytes),
                     "r"(shared_address(&barrier)) : "memory");
    }
    __syncthreads();
    wait(&barrier, 0);
    for (unsigned i = threadIdx.x; i < count; i += THREADS) numbers[i] *= 2;
    before_copies();
    __syncthreads();
    if (threadIdx.x != 0) return;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + blockIdx.x * count),
                 "r"(shared_address(numbers)), "r"(bytes) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(sums),
                 "r"(shared_address(numbers)), "r"(bytes) : "memory");
    wait_for_stores();
}

constexpr int TILE = 32, STAGES = 2;

// The sums of the columns of a matrix: a block has `TILE` of them, and the next tiles are on their way meanwhile.
__global__ void sum_columns(const __grid_constant__ CUtensorMap map, int tiles, float *sums) {
    __shared__ alignas(128) float tile[STAGES][TILE][TILE];
    __shared__ uint64_t full[STAGES];
    const int column = static_cast<int>(blockIdx.x) * TILE;
    const auto start = [&](int number) {
        expect_bytes(&full[number % STAGES], sizeof tile[0]);
        load_box<2>(tile[number % STAGES], &map, Coordinates{{column, number * TILE}}, &full[number % STAGES]);
    };
    if (threadIdx.x == 0) {
        for (auto &barrier : full) init_barrier(&barrier);
        for (int number = 0; number < STAGES && number < tiles; ++number) start(number);
    }
    __syncthreads();
    float sum = 0;
    for (int number = 0; number < tiles; ++number) {
        wait(&full[number % STAGES], number / STAGES % 2);
        for (int row = 0; row < TILE; ++row) sum += tile[number % STAGES][row][threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0 && number + STAGES < tiles) start(number + STAGES);
    }
    sums[column + threadIdx.x] = sum;
}

// A tensor with the box that is copied; the strides are those of rows `pitch` bytes long, one behind the other.
struct Shape {
    CUtensorMapDataType type;
    unsigned width;
    int axes;
    cuuint64_t sizes[AXES];
    cuuint64_t strides[AXES];
    cuuint32_t box[AXES];
    cuuint32_t steps[AXES] = {1, 1, 1, 1, 1};
    unsigned swizzle = 0;
    bool nan = false;

    CUresult encode(CUtensorMap *map, void *address) const {
        const auto pattern = swizzle == 32    ? CU_TENSOR_MAP_SWIZZLE_32B
                             : swizzle == 64  ? CU_TENSOR_MAP_SWIZZLE_64B
                             : swizzle == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                              : CU_TENSOR_MAP_SWIZZLE_NONE;
        return cuTensorMapEncodeTiled(map, type, axes, address, sizes, strides, box, steps,
                                      CU_TENSOR_MAP_INTERLEAVE_NONE, pattern, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                      nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                                          : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }

    unsigned count(int axis) const { return axis == 0 ? box[0] : (box[axis] + steps[axis] - 1) / steps[axis]; }

    unsigned rows() const {
        unsigned all = 1;
        for (int axis = 1; axis < axes; ++axis) all *= count(axis);
        return all;
    }

    unsigned bytes() const { return rows() * box[0] * width; }

    // Calls with each element of the box at `c`: its place in shared memory, and in the tensor (-1: it has none).
    template <typename See>
    void each(const Coordinates &c, See see) const {
        const unsigned pitch = box[0] * width > swizzle ? box[0] * width : swizzle;
        for (unsigned row = 0; row < rows(); ++row) {
            unsigned rest = row;
            bool inside = true;
            long long offset = 0;
            for (int axis = 1; axis < axes; ++axis) {
                const long long at = c.at[axis] + static_cast<long long>(rest % count(axis)) * steps[axis];
                rest /= count(axis);
                inside = inside && at >= 0 && at < static_cast<long long>(sizes[axis]);
                offset += at * static_cast<long long>(strides[axis - 1]);
            }
            for (unsigned i = 0; i < box[0]; ++i) {
                const long long at = c.at[0] + static_cast<long long>(i);
                const bool found = inside && at >= 0 && at < static_cast<long long>(sizes[0]);
                unsigned place = row * pitch + i * width;
                if (swizzle != 0) place ^= (place >> 7 & (swizzle / 16 - 1)) << 4;
                see(place, found ? offset + at * width : -1);
            }
        }
    }
};

Shape shape_of(CUtensorMapDataType type, unsigned width, int axes) {
    Shape shape{type, width, axes, {20, 7, 5, 4, 3}, {}, {16, 4, 3, 2, 2}};
    cuuint64_t stride = 32 * width;
    for (int axis = 1; axis < axes; ++axis) {
        shape.strides[axis - 1] = stride;
        stride *= shape.sizes[axis];
    }
    return shape;
}

constexpr size_t TENSOR = 1 << 18;

struct Memory {
    std::vector<unsigned char> tensor, block;
    unsigned char *device_tensor, *device_block;

    Memory() : tensor(TENSOR), block(SHARED) {
        Inputs inputs(7);
        for (auto &byte : tensor) byte = static_cast<unsigned char>(inputs.below(256));
        for (auto &byte : block) byte = static_cast<unsigned char>(inputs.below(256));
        device_tensor = device_copy(tensor);
        device_block = device_copy(block);
    }

    ~Memory() {
        CHECK(cudaFree(device_tensor));
        CHECK(cudaFree(device_block));
    }
};

template <int N>
void check_load(const Shape &shape, const Coordinates &c, Memory &memory, const char *what, Verdict &verdict) {
    CUtensorMap map;
    CHECK_DRIVER(shape.encode(&map, memory.device_tensor));
    unsigned char *out = device_alloc<unsigned char>(SHARED);
    load<N><<<1, THREADS>>>(map, c, shape.bytes(), out);
    CHECK_LAUNCH();
    const auto got = host_copy(out, SHARED);
    CHECK(cudaFree(out));
    size_t wrong = 0;
    shape.each(c, [&](unsigned place, long long offset) {
        unsigned char want[8];
        for (unsigned byte = 0; byte < shape.width; ++byte) {
            const unsigned char fill = shape.nan ? (byte % 2 ? 0x7f : 0xf7) : 0;
            want[byte] = offset < 0 ? fill : memory.tensor[offset + byte];
        }
        wrong += std::memcmp(&got[place], want, shape.width) != 0;
    });
    std::printf("load, %d axes, %s: %zu wrong\n", N, what, wrong);
    verdict.expect(wrong == 0, what);
}

template <int N>
void check_store(const Shape &shape, const Coordinates &c, Memory &memory, Verdict &verdict) {
    CUtensorMap map;
    CHECK_DRIVER(shape.encode(&map, memory.device_tensor));
    store<N><<<1, THREADS>>>(map, c, memory.device_block);
    CHECK_LAUNCH();
    shape.each(c, [&](unsigned place, long long offset) {
        if (offset >= 0) std::memcpy(&memory.tensor[offset], &memory.block[place], shape.width);
    });
    const auto got = host_copy(memory.device_tensor, TENSOR);
    const bool same = got == memory.tensor;
    std::printf("store, %d axes: %s\n", N, same ? "right" : "wrong");
    verdict.expect(same, "a stored box");
}

template <int N>
void check_axes(Memory &memory, Verdict &verdict) {
    Shape floats = shape_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, N);
    check_load<N>(floats, Coordinates{{0, 1, 1, 0, 1}}, memory, "f32 inside", verdict);
    check_load<N>(floats, Coordinates{{8, 5, 4, 3, 2}}, memory, "f32 over the ends", verdict);
    floats.nan = true;
    check_load<N>(floats, Coordinates{{-4, -1, -2, -1, -1}}, memory, "f32 before the beginning, NaN", verdict);
    check_load<N>(shape_of(CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, N), Coordinates{{8, -1, 3, 2, 2}}, memory, "u16", verdict);
    check_load<N>(shape_of(CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, N), Coordinates{{16, 6, 0, 3, 0}}, memory, "u8", verdict);
    check_load<N>(shape_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8, N), Coordinates{{2, 0, 0, 0, 0}}, memory, "f64", verdict);
    floats.nan = false;
    for (int axis = 1; axis < N; ++axis) floats.steps[axis] = static_cast<cuuint32_t>(axis % 3 + 1);
    check_load<N>(floats, Coordinates{{4, 1, 0, 0, 1}}, memory, "f32 with steps", verdict);
    const Shape whole = shape_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, N);
    check_store<N>(whole, Coordinates{{0, 0, 0, 0, 0}}, memory, verdict);
    check_store<N>(whole, Coordinates{{8, 5, 4, 3, 2}}, memory, verdict);
}

void check_swizzles(Memory &memory, Verdict &verdict) {
    for (unsigned swizzle : {32u, 64u, 128u}) {
        // Rows as wide as the swizzle, and narrower ones.
        for (unsigned bytes : {swizzle, 16u}) {
            Shape shape = shape_of(CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, 2);
            shape.sizes[0] = 32;
            shape.box[0] = bytes / 4;
            shape.box[1] = 16;
            shape.swizzle = swizzle;
            check_load<2>(shape, Coordinates{{4, -2}}, memory, "u32, swizzled", verdict);
            if (bytes == swizzle) check_store<2>(shape, Coordinates{{0, 1}}, memory, verdict);
        }
    }
}

template <Operator OPERATOR, typename T, typename Combine>
void check_combination(CUtensorMapDataType type, const char *what, Combine combine_two, Verdict &verdict) {
    constexpr int ROWS = 12, COLUMNS = 32, BOX = 16, BLOCKS = 3;
    std::vector<T> there(ROWS * COLUMNS), box(BOX * BOX);
    Inputs inputs(3);
    for (auto &element : there) element = static_cast<T>(inputs.below(1000));
    for (auto &element : box) element = static_cast<T>(inputs.below(1000));
    T *device_there = device_copy(there), *device_box = device_copy(box);
    Shape shape{type, sizeof(T), 2, {COLUMNS, ROWS}, {COLUMNS * sizeof(T)}, {BOX, BOX}};
    CUtensorMap map;
    // Made for another address, which is replaced.
    CHECK_DRIVER(shape.encode(&map, device_box));
    CHECK_DRIVER(cuTensorMapReplaceAddress(&map, device_there));
    const Coordinates c{{BOX, 4}};
    combine<OPERATOR><<<BLOCKS, THREADS>>>(map, c, device_box, BOX * BOX);
    CHECK_LAUNCH();
    for (int block = 0; block < BLOCKS; ++block) {
        shape.each(c, [&](unsigned place, long long offset) {
            T &element = there[offset < 0 ? 0 : offset / sizeof(T)];
            if (offset >= 0) element = combine_two(element, box[place / sizeof(T)]);
        });
    }
    const auto got = host_copy(device_there, there.size());
    verdict.equal(what, got.data(), there.data(), there.size());
    CHECK(cudaFree(device_there));
    CHECK(cudaFree(device_box));
}

void check_combinations(Verdict &verdict) {
    check_combination<ADD, unsigned>(CU_TENSOR_MAP_DATA_TYPE_UINT32, "sums of u32",
                                     [](unsigned a, unsigned b) { return a + b; }, verdict);
    check_combination<ADD, float>(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, "sums of f32", [](float a, float b) { return a + b; },
                                  verdict);
    check_combination<MIN, int>(CU_TENSOR_MAP_DATA_TYPE_INT32, "minima of s32", [](int a, int b) { return a < b ? a : b; },
                                verdict);
    check_combination<MAX, long long>(CU_TENSOR_MAP_DATA_TYPE_INT64, "maxima of s64",
                                      [](long long a, long long b) { return a > b ? a : b; }, verdict);
    check_combination<OR, unsigned>(CU_TENSOR_MAP_DATA_TYPE_UINT32, "bits of u32",
                                    [](unsigned a, unsigned b) { return a | b; }, verdict);
}

void check_plain(Verdict &verdict) {
    constexpr unsigned BLOCKS = 4, COUNT = 1000;
    std::vector<unsigned> in(BLOCKS * COUNT), doubled(in.size()), sums(COUNT, 5), wanted(COUNT, 5);
    Inputs inputs(11);
    for (size_t i = 0; i < in.size(); ++i) {
        in[i] = inputs.bits();
        doubled[i] = 2 * in[i];
        wanted[i % COUNT] += doubled[i];
    }
    unsigned *device_in = device_copy(in), *device_sums = device_copy(sums), *out = device_alloc<unsigned>(in.size());
    plain<<<BLOCKS, THREADS>>>(device_in, out, device_sums, COUNT);
    CHECK_LAUNCH();
    const auto got = host_copy(out, in.size()), got_sums = host_copy(device_sums, COUNT);
    verdict.equal("plain copies", got.data(), doubled.data(), got.size());
    verdict.equal("plain sums", got_sums.data(), wanted.data(), got_sums.size());
    CHECK(cudaFree(device_in));
    CHECK(cudaFree(device_sums));
    CHECK(cudaFree(out));
}

void check_pipeline(Verdict &verdict) {
    // The last tile of rows is not full: zeros are added.
    constexpr int ROWS = 5 * TILE - 7, COLUMNS = 3 * TILE;
    std::vector<float> matrix(ROWS * COLUMNS), wanted(COLUMNS);
    Inputs inputs(5);
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        matrix[i] = static_cast<float>(inputs.below(100));
        wanted[i % COLUMNS] += matrix[i];
    }
    float *device_matrix = device_copy(matrix), *sums = device_alloc<float>(COLUMNS);
    Shape shape{CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, 2, {COLUMNS, ROWS}, {COLUMNS * sizeof(float)}, {TILE, TILE}};
    CUtensorMap map;
    CHECK_DRIVER(shape.encode(&map, device_matrix));
    sum_columns<<<COLUMNS / TILE, TILE>>>(map, (ROWS + TILE - 1) / TILE, sums);
    CHECK_LAUNCH();
    const auto got = host_copy(sums, COLUMNS);
    verdict.near("sums of columns", got.data(), wanted.data(), got.size(), 0, 0);
    CHECK(cudaFree(device_matrix));
    CHECK(cudaFree(sums));
}

void check_refusals(Memory &memory, Verdict &verdict) {
    CUtensorMap map;
    const auto code = [&](auto change, size_t address, CUresult want, const char *what) {
        Shape shape = shape_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, 3);
        change(shape);
        says(shape.encode(&map, memory.device_tensor + address), want, what, verdict);
    };
    const auto same = [](Shape &) {};
    code(same, 16, CUDA_SUCCESS, "an address that is a multiple of 16");
    code([](Shape &shape) { shape.strides[0] = 0; }, 0, CUDA_SUCCESS, "a stride of 0");
    code([](Shape &shape) { shape.sizes[2] = 1ull << 32; }, 0, CUDA_SUCCESS, "a size of 2^32");
    code(same, 8, CUDA_ERROR_INVALID_VALUE, "an address that is none");
    code([](Shape &shape) { shape.strides[0] = 1ull << 40; }, 0, CUDA_ERROR_INVALID_VALUE, "a stride of 2^40");
    code([](Shape &shape) { shape.sizes[1] = 0; }, 0, CUDA_ERROR_INVALID_VALUE, "a size of 0");
    code([](Shape &shape) { shape.box[1] = 257; }, 0, CUDA_ERROR_INVALID_VALUE, "a box of 257");
    code([](Shape &shape) { shape.box[0] = 3; }, 0, CUDA_ERROR_INVALID_VALUE, "rows of 12 bytes");
    code([](Shape &shape) { shape.steps[1] = 9; }, 0, CUDA_ERROR_INVALID_VALUE, "a step of 9");
    code([](Shape &shape) { shape.box[0] = 32, shape.swizzle = 32; }, 0, CUDA_ERROR_INVALID_VALUE,
         "rows of 128 with a swizzle of 32");
    code([](Shape &shape) { shape.type = CU_TENSOR_MAP_DATA_TYPE_INT32, shape.nan = true; }, 0,
         CUDA_ERROR_INVALID_VALUE, "NaN of integers");
}

int main() {
    Verdict verdict;
    CHECK(cudaFree(nullptr)); // the context
    {
        Memory memory;
        check_axes<1>(memory, verdict);
        check_axes<2>(memory, verdict);
        check_axes<3>(memory, verdict);
        check_axes<4>(memory, verdict);
        check_axes<5>(memory, verdict);
        check_swizzles(memory, verdict);
        check_refusals(memory, verdict);
    }
    check_combinations(verdict);
    check_plain(verdict);
    check_pipeline(verdict);
    return verdict.finish();
}
