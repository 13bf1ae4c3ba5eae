// cuRAND: generators of the host interface. The same seed gives the same numbers natively and through floe; means and
// variances are what they must be; numbers can be skipped.
// link: libcurand.so.10
#include <curand.h>

#include "checking.h"

constexpr size_t kCount = 1 << 20;

static void uniform_of(curandRngType_t kind) {
    curandGenerator_t generator;
    float *there = nullptr;
    GOOD(cudaMalloc(&there, kCount * sizeof(float)));
    GOOD(curandCreateGenerator(&generator, kind));
    GOOD(curandSetPseudoRandomGeneratorSeed(generator, 1234));
    GOOD(curandGenerateUniform(generator, there, kCount));
    const auto drawn = to_host(there, kCount);
    double sum = 0;
    for (const float number : drawn) {
        expect(number > 0 && number <= 1, "a number out of range");
        sum += number;
    }
    near_to("mean", sum / kCount, 0.5, 5e-3);
    exactly(drawn, 6);
    GOOD(curandDestroyGenerator(generator));
    GOOD(cudaFree(there));
}

static void xorwow() { uniform_of(CURAND_RNG_PSEUDO_XORWOW); }
static void philox() { uniform_of(CURAND_RNG_PSEUDO_PHILOX4_32_10); }
static void mrg() { uniform_of(CURAND_RNG_PSEUDO_MRG32K3A); }
static void mersenne() { uniform_of(CURAND_RNG_PSEUDO_MT19937); }

static void normal() {
    curandGenerator_t generator;
    cudaStream_t stream;
    double *there = nullptr;
    GOOD(cudaMalloc(&there, kCount * sizeof(double)));
    GOOD(cudaStreamCreate(&stream));
    GOOD(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    GOOD(curandSetStream(generator, stream));
    GOOD(curandSetPseudoRandomGeneratorSeed(generator, 7));
    GOOD(curandSetGeneratorOffset(generator, 100));
    GOOD(curandGenerateNormalDouble(generator, there, kCount, 1.0, 2.0));
    GOOD(cudaStreamSynchronize(stream));
    const auto drawn = to_host(there, kCount);
    double sum = 0, squares = 0;
    for (const double number : drawn) {
        sum += number;
        squares += (number - 1) * (number - 1);
    }
    near_to("mean", sum / kCount, 1.0, 2e-2);
    near_to("variance", squares / kCount, 4.0, 5e-2);
    exactly(drawn, 6);
    GOOD(curandDestroyGenerator(generator));
}

int main(int argc, char **argv) {
    return run_checks({{"xorwow", xorwow}, {"philox", philox}, {"mrg", mrg}, {"mersenne", mersenne}, {"normal", normal}}, argc, argv);
}
