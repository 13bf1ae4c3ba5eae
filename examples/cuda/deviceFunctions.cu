// Functions and memory that a kernel uses besides its arguments. Functions: not inlined, recursive, by pointer, virtual
// methods of device objects. Memory: large local arrays, globals and constant memory.
// No argument. Results must be equal to the same code's on the CPU.
#include "check.h"

constexpr unsigned threads = 64;

__host__ __device__ __noinline__ int clamp_scale(int value, int factor, int limit) {
    const int scaled = value * factor;
    return scaled > limit ? limit : scaled;
}

// Recursion whose depth differs from lane to lane.
__host__ __device__ __noinline__ unsigned fibonacci(unsigned n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__host__ __device__ __noinline__ int steps_to_one(unsigned n) {
    if (n <= 1) return 0;
    return 1 + steps_to_one(n % 2 == 0 ? n / 2 : 3 * n + 1);
}

// A struct by value, in and out: parameters and results in memory rather than registers.
struct Pair {
    double first;
    int second;
    char tag;
};

__host__ __device__ __noinline__ Pair swap_parts(Pair pair) {
    return {static_cast<double>(pair.second), static_cast<int>(pair.first), static_cast<char>(pair.tag + 1)};
}

using Operation = int (*)(int, int);
__host__ __device__ int op_add(int a, int b) { return a + b; }
__host__ __device__ int op_subtract(int a, int b) { return a - b; }
__host__ __device__ int op_multiply(int a, int b) { return a * b; }
__host__ __device__ int op_xor(int a, int b) { return a ^ b; }
__device__ Operation operations[] = {op_add, op_subtract, op_multiply, op_xor};

// Objects made on the device, called through their virtual methods.
struct Shape {
    __host__ __device__ virtual int area() const = 0;
    __host__ __device__ virtual int corners() const { return 0; }
};
struct Rectangle : Shape {
    int width, height;
    __host__ __device__ Rectangle(int w, int h) : width(w), height(h) {}
    __host__ __device__ int area() const override { return width * height; }
    __host__ __device__ int corners() const override { return 4; }
};
struct Disc : Shape {
    int radius;
    __host__ __device__ explicit Disc(int r) : radius(r) {}
    __host__ __device__ int area() const override { return 3 * radius * radius; }
};

__host__ __device__ __noinline__ int describe(const Shape &shape) { return shape.area() * 10 + shape.corners(); }

__host__ __device__ int shape_of(unsigned i) {
    if (i % 3 == 0) {
        const Disc disc(static_cast<int>(i));
        return describe(disc);
    }
    const Rectangle rectangle(static_cast<int>(i), 7);
    return describe(rectangle);
}

// A local array indexed by data, which the compiler cannot keep in registers.
__host__ __device__ int shuffle_digits(unsigned seed) {
    unsigned char order[64];
    for (unsigned i = 0; i < 64; ++i) order[i] = static_cast<unsigned char>(i);
    for (unsigned i = 63; i > 0; --i) {
        seed = seed * 1664525u + 1013904223u;
        const unsigned other = (seed >> 16) % (i + 1);
        const unsigned char kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    int sum = 0;
    for (unsigned i = 0; i < 64; ++i) sum = sum * 3 + order[i];
    return sum;
}

// A dense switch becomes an indirect branch through a table.
__host__ __device__ int classify(unsigned i) {
    switch (i % 12) {
        case 0: return static_cast<int>(i) * 5;
        case 1: return static_cast<int>(i) - 9;
        case 2: return static_cast<int>(i ^ 0x55);
        case 3: return -static_cast<int>(i);
        case 4: return static_cast<int>(i << 3);
        case 5: return static_cast<int>(i >> 1);
        case 6: return 1234;
        case 7: return static_cast<int>(i * i);
        case 8: return static_cast<int>(i % 7);
        case 9: return static_cast<int>(i | 0x100);
        default: return -1;
    }
}

__constant__ int coefficients[8];
__device__ int counter = 100;
__device__ double matrix[4][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}, {13, 14, 15, 16}};
__device__ const char *const words[] = {"zero", "one", "two"};

__global__ void call_functions(int *out, Pair *pairs) {
    const unsigned i = threadIdx.x;
    int *row = &out[i * 8];
    row[0] = clamp_scale(static_cast<int>(i), 9, 300);
    row[1] = static_cast<int>(fibonacci(i % 12));
    row[2] = steps_to_one(i + 1);
    row[3] = operations[i % 4](static_cast<int>(i), 13);
    row[4] = shape_of(i);
    row[5] = shuffle_digits(i);
    row[6] = classify(i);
    row[7] = words[i % 3][i % 2];
    pairs[i] = swap_parts({i + 0.5, static_cast<int>(i) * 2, 'a'});
}

__global__ void use_globals(int *out, double *trace) {
    int sum = 0;
    for (int k = 0; k < 8; ++k) sum = sum * 2 + coefficients[(k + threadIdx.x) % 8];
    out[threadIdx.x] = sum;
    atomicAdd(&counter, 1);
    if (threadIdx.x == 0) {
        *trace = matrix[0][0] + matrix[1][1] + matrix[2][2] + matrix[3][3];
        matrix[0][0] = -1;
    }
}

static void check_calls(Verdict &verdict) {
    int *out = device_alloc<int>(threads * 8);
    Pair *pairs = device_alloc<Pair>(threads);
    size_t stack = 0;
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
    CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    verdict.expect(stack >= 16 << 10, "the stack limit is what was set");
    call_functions<<<1, threads>>>(out, pairs);
    CHECK_LAUNCH();
    const Operation host_operations[] = {op_add, op_subtract, op_multiply, op_xor};
    const char *const host_words[] = {"zero", "one", "two"};
    std::vector<int> want(threads * 8);
    for (unsigned i = 0; i < threads; ++i) {
        int *row = &want[i * 8];
        row[0] = clamp_scale(static_cast<int>(i), 9, 300);
        row[1] = static_cast<int>(fibonacci(i % 12));
        row[2] = steps_to_one(i + 1);
        row[3] = host_operations[i % 4](static_cast<int>(i), 13);
        row[4] = shape_of(i);
        row[5] = shuffle_digits(i);
        row[6] = classify(i);
        row[7] = host_words[i % 3][i % 2];
    }
    verdict.equal("functions", host_copy(out, want.size()).data(), want.data(), want.size());
    const std::vector<Pair> got = host_copy(pairs, threads);
    bool structs = true;
    for (unsigned i = 0; i < threads; ++i)
        structs &= got[i].first == i * 2.0 && got[i].second == static_cast<int>(i) && got[i].tag == 'b';
    verdict.expect(structs, "structs by value");
    CHECK(cudaFree(out));
    CHECK(cudaFree(pairs));
}

static void check_globals(Verdict &verdict) {
    const int values[8] = {3, 1, 4, 1, 5, 9, 2, 6};
    CHECK(cudaMemcpyToSymbol(coefficients, values, sizeof(values)));
    const int replaced = 7;
    CHECK(cudaMemcpyToSymbol(coefficients, &replaced, sizeof(int), 5 * sizeof(int)));
    int *out = device_alloc<int>(32);
    double *trace = device_alloc<double>(1);
    use_globals<<<1, 32>>>(out, trace);
    CHECK_LAUNCH();
    std::vector<int> want(32, 0);
    for (unsigned i = 0; i < 32; ++i)
        for (unsigned k = 0; k < 8; ++k) want[i] = want[i] * 2 + ((k + i) % 8 == 5 ? 7 : values[(k + i) % 8]);
    verdict.equal("constant memory", host_copy(out, 32).data(), want.data(), 32);
    const double want_trace = 34;
    verdict.near("an initialised global", host_copy(trace, 1).data(), &want_trace, 1, 0, 0);

    int count = 0;
    double corner = 0;
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof(count)));
    CHECK(cudaMemcpyFromSymbol(&corner, matrix, sizeof(corner)));
    verdict.expect(count == 132, "a global counts what the kernel added");
    verdict.expect(corner == -1, "a global keeps what the kernel wrote");
    void *address = nullptr;
    size_t size = 0;
    CHECK(cudaGetSymbolAddress(&address, matrix));
    CHECK(cudaGetSymbolSize(&size, matrix));
    verdict.expect(address != nullptr && size == sizeof(double) * 16, "a symbol's address and size");
    CHECK(cudaMemset(address, 0, size));
    CHECK(cudaMemcpyFromSymbol(&corner, matrix, sizeof(corner), sizeof(double) * 5));
    verdict.expect(corner == 0, "a symbol's address is the kernel's");
    CHECK(cudaFree(out));
    CHECK(cudaFree(trace));
}

int main() {
    Verdict verdict;
    check_calls(verdict);
    check_globals(verdict);
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, call_functions));
    verdict.expect(attributes.maxThreadsPerBlock >= static_cast<int>(threads) && attributes.localSizeBytes > 0,
                   "the kernel's attributes tell of its local memory");
    return verdict.finish();
}
