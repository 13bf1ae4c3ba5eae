// Estimates pi and an integral from random numbers of two generators on the device. They are the counter-based Philox
// 4x32 with ten rounds, and Marsaglia's xorshift64* with a state per thread.
// Argument: samples per thread (default 64; 4096 threads). Hits are counted in integers, so they must equal the
// CPU's count with the same generators; the estimates must lie within five standard errors.
#include "check.h"

constexpr unsigned threads = 128, blocks = 32;

struct Words {
    uint32_t x, y, z, w;
};

// Ten rounds of Philox (Salmon et al., 2011) on a 128-bit counter with a 64-bit key.
__host__ __device__ inline Words philox(Words counter, uint32_t key_low, uint32_t key_high) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = 0xD2511F53ull * counter.x;
        const uint64_t b = 0xCD9E8D57ull * counter.z;
        counter = {static_cast<uint32_t>(b >> 32) ^ counter.y ^ key_low, static_cast<uint32_t>(b),
                   static_cast<uint32_t>(a >> 32) ^ counter.w ^ key_high, static_cast<uint32_t>(a)};
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
    return counter;
}

__host__ __device__ inline uint32_t xorshift(uint64_t &state) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<uint32_t>((state * 2685821657736338717ull) >> 32);
}

// Whether the point (x, y) of a square of 2^32 lies in the quarter circle; integers, so exact everywhere.
__host__ __device__ inline bool inside(uint32_t x, uint32_t y) {
    const uint64_t a = x >> 1, b = y >> 1;
    return a * a + b * b < (1ull << 62);
}

// Hits of one thread; the same function runs on the CPU.
__host__ __device__ inline unsigned philox_hits(unsigned thread, unsigned samples) {
    unsigned hits = 0;
    for (unsigned i = 0; i < samples; i += 2) {
        const Words random = philox({i, thread, 0, 0}, 2026, 9);
        hits += inside(random.x, random.y);
        if (i + 1 < samples) hits += inside(random.z, random.w);
    }
    return hits;
}

__host__ __device__ inline unsigned xorshift_hits(unsigned thread, unsigned samples) {
    uint64_t state = 0x9E3779B97F4A7C15ull * (thread + 1);
    unsigned hits = 0;
    for (unsigned i = 0; i < samples; ++i) {
        const uint32_t x = xorshift(state);
        const uint32_t y = xorshift(state);
        hits += inside(x, y);
    }
    return hits;
}

template <bool counter_based>
__global__ void count_hits(unsigned samples, unsigned *hits, unsigned long long *total) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned own = counter_based ? philox_hits(thread, samples) : xorshift_hits(thread, samples);
    hits[thread] = own;
    atomicAdd(total, static_cast<unsigned long long>(own));
}

// The mean of sin(pi x) over [0, 1), each thread's sum in f32 and the block's in f64 atomics.
__global__ void mean_sine(unsigned samples, double *total) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (unsigned i = 0; i < samples; ++i) {
        const Words random = philox({i, thread, 1, 0}, 7, 8);
        sum += sinpif(static_cast<float>(random.x >> 8) * (1.0f / 16777216.0f));
    }
    atomicAdd(total, static_cast<double>(sum));
}

static void check_estimate(Verdict &verdict, const char *what, double got, double want, double deviation,
                           double samples) {
    const double errors = std::fabs(got - want) / (deviation / std::sqrt(samples));
    std::printf("%s: %.6f, %.2f standard errors from %.6f\n", what, got, errors, want);
    verdict.expect(errors < 5, what);
}

template <bool counter_based>
static void check_pi(Verdict &verdict, unsigned samples) {
    const char *name = counter_based ? "hits, philox" : "hits, xorshift";
    unsigned *hits = device_alloc<unsigned>(threads * blocks);
    unsigned long long *total = device_alloc<unsigned long long>(1);
    CHECK(cudaMemset(total, 0, sizeof(*total)));
    count_hits<counter_based><<<blocks, threads>>>(samples, hits, total);
    CHECK_LAUNCH();
    std::vector<unsigned> want(threads * blocks);
    unsigned long long want_total = 0;
    for (unsigned thread = 0; thread < want.size(); ++thread) {
        want[thread] = counter_based ? philox_hits(thread, samples) : xorshift_hits(thread, samples);
        want_total += want[thread];
    }
    verdict.equal(name, host_copy(hits, want.size()).data(), want.data(), want.size());
    const std::vector<unsigned long long> got_total = host_copy(total, 1);
    verdict.equal("sum of hits", got_total.data(), &want_total, 1);
    const double points = static_cast<double>(samples) * want.size();
    // A hit is a coin of chance pi / 4; four times its deviation is 1.642.
    check_estimate(verdict, "pi", 4.0 * static_cast<double>(got_total[0]) / points, M_PI, 1.642, points);
    CHECK(cudaFree(hits));
    CHECK(cudaFree(total));
}

int main(int argc, char **argv) {
    const unsigned samples = static_cast<unsigned>(size_argument(argc, argv, 1, 64));
    Verdict verdict;
    // The generator's published answer for a counter and key of zeros.
    const Words zeros = philox({0, 0, 0, 0}, 0, 0);
    verdict.expect(zeros.x == 0x6627e8d5u && zeros.y == 0xe169c58du && zeros.z == 0xbc57ac4cu &&
                       zeros.w == 0x9b00dbd8u,
                   "philox gives its published numbers");
    check_pi<true>(verdict, samples);
    check_pi<false>(verdict, samples);

    double *total = device_alloc<double>(1);
    CHECK(cudaMemset(total, 0, sizeof(double)));
    mean_sine<<<blocks, threads>>>(samples, total);
    CHECK_LAUNCH();
    const double points = static_cast<double>(samples) * threads * blocks;
    check_estimate(verdict, "mean of sin(pi x)", host_copy(total, 1)[0] / points, 2 / M_PI, 0.3078, points);
    CHECK(cudaFree(total));
    return verdict.finish();
}
