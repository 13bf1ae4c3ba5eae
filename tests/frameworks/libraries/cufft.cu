// cuFFT: complex and real transforms, forward and back, batched, two-dimensional, of sizes with large primes.
// A single tone must end in a single bin; what goes forth must come back.
// link: libcufft.so.12
#include <cufft.h>

#include "checking.h"

static std::vector<cufftDoubleComplex> signal_of(size_t count, unsigned seed) {
    const auto parts = numbers(count * 2, seed);
    std::vector<cufftDoubleComplex> values(count);
    for (size_t at = 0; at < count; ++at) values[at] = {parts[2 * at], parts[2 * at + 1]};
    return values;
}

static void returns(cufftHandle plan, const std::vector<cufftDoubleComplex> &values, double scale) {
    cufftDoubleComplex *there = to_device(values);
    GOOD(cufftExecZ2Z(plan, there, there, CUFFT_FORWARD));
    GOOD(cufftExecZ2Z(plan, there, there, CUFFT_INVERSE));
    const auto back = to_host(there, values.size());
    for (size_t at = 0; at < values.size(); ++at) {
        near_to("real part", back[at].x / scale, values[at].x, 1e-9);
        near_to("imaginary part", back[at].y / scale, values[at].y, 1e-9);
    }
    GOOD(cufftDestroy(plan));
    GOOD(cudaFree(there));
}

static void there_and_back() {
    for (const int size : {2, 64, 1000, 4096, 7919, 65536}) {
        cufftHandle plan;
        GOOD(cufftPlan1d(&plan, size, CUFFT_Z2Z, 1));
        returns(plan, signal_of(size, 1), size);
    }
}

static void batched() {
    cufftHandle plan;
    GOOD(cufftPlan1d(&plan, 243, CUFFT_Z2Z, 100));
    returns(plan, signal_of(24300, 2), 243);
}

static void two_dimensional() {
    cufftHandle plan;
    GOOD(cufftPlan2d(&plan, 120, 77, CUFFT_Z2Z));
    returns(plan, signal_of(120 * 77, 3), 120 * 77);
}

static void tone() {
    const int size = 1 << 14, at = 321;
    std::vector<float> wave(size);
    for (int n = 0; n < size; ++n) wave[n] = std::cos(2 * 3.14159265358979323846 * at * n / size);
    float *there = to_device(wave);
    cufftComplex *spectrum = to_device(std::vector<cufftComplex>(size / 2 + 1));
    cufftHandle plan;
    cudaStream_t stream;
    GOOD(cudaStreamCreate(&stream));
    GOOD(cufftPlan1d(&plan, size, CUFFT_R2C, 1));
    GOOD(cufftSetStream(plan, stream));
    GOOD(cufftExecR2C(plan, there, spectrum));
    GOOD(cudaStreamSynchronize(stream));
    const auto bins = to_host(spectrum, size / 2 + 1);
    for (int bin = 0; bin <= size / 2; ++bin) {
        near_to("bin", std::hypot(bins[bin].x, bins[bin].y), bin == at ? size / 2.0 : 0.0, 0.5);
    }
    exactly(std::vector<float>{bins[at].x, bins[at].y, bins[7].x}, 3);
    GOOD(cufftDestroy(plan));
}

int main(int argc, char **argv) {
    return run_checks({{"there_and_back", there_and_back}, {"batched", batched}, {"two_dimensional", two_dimensional}, {"tone", tone}},
                      argc, argv);
}
