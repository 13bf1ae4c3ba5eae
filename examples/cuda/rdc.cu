// One of two translation units linked on the device (-rdc=true): this one has the kernels and calls functions and
// reads variables of the other.
// No argument. Results must be equal to the CPU's.
#include "check.h"
#include "rdc.h"

__device__ int shared_counter = 5;

__global__ void call_across(int *out) {
    const int i = static_cast<int>(threadIdx.x);
    out[i * 3] = polynomial(i);
    out[i * 3 + 1] = table[i % 4];
    out[i * 3 + 2] = chosen(i % 2 == 0)(i, 10);
    count_call();
}

int main() {
    constexpr int threads = 64;
    Verdict verdict;
    const int coefficients[3] = {7, -2, 3};
    set_coefficients(coefficients);
    int *out = device_alloc<int>(threads * 3);
    call_across<<<1, threads>>>(out);
    CHECK_LAUNCH();
    std::vector<int> want(threads * 3);
    for (int i = 0; i < threads; ++i) {
        want[i * 3] = 7 + i * (-2 + i * 3);
        want[i * 3 + 1] = (i % 4 + 1) * 11;
        want[i * 3 + 2] = i % 2 == 0 ? i + 10 : i * 10;
    }
    verdict.equal("calls across units", host_copy(out, want.size()).data(), want.data(), want.size());
    int counted = 0;
    CHECK(cudaMemcpyFromSymbol(&counted, shared_counter, sizeof(int)));
    const int want_counted = 5 + threads;
    verdict.equal("a counter that the other unit adds to", &counted, &want_counted, 1);

    // A kernel of the other unit, launched by its own host code.
    launch_double(out, threads * 3);
    for (int &value : want) value *= 2;
    verdict.equal("the other unit's kernel", host_copy(out, want.size()).data(), want.data(), want.size());
    CHECK(cudaFree(out));
    return verdict.finish();
}
