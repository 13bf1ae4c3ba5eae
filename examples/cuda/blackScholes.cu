// Prices European options by the Black-Scholes formula in f32, with a polynomial for the normal distribution. It runs
// once with the accurate and once with the fast (`__expf`) functions.
// Argument: number of options (default 65536). Checks against the CPU's formula in double precision (erfc).
#include "check.h"

constexpr float riskless = 0.02f;
constexpr float volatility = 0.30f;

// The cumulative normal distribution: Abramowitz and Stegun 26.2.17, error below 7.5e-8.
template <bool fast>
__device__ float cumulative_normal(float d) {
    const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    const float density = 0.39894228040143267794f * (fast ? __expf(-0.5f * d * d) : expf(-0.5f * d * d));
    const float tail =
        density * k *
        (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    return d > 0 ? 1.0f - tail : tail;
}

template <bool fast>
__global__ void black_scholes(const float *price, const float *strike, const float *years, float *call,
                              float *put, size_t count) {
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step) {
        const float root = fast ? __fsqrt_rn(years[i]) : sqrtf(years[i]);
        const float ratio = price[i] / strike[i];
        const float d1 = ((fast ? __logf(ratio) : logf(ratio)) +
                          (riskless + 0.5f * volatility * volatility) * years[i]) /
                         (volatility * root);
        const float d2 = d1 - volatility * root;
        const float n1 = cumulative_normal<fast>(d1);
        const float n2 = cumulative_normal<fast>(d2);
        const float discount = fast ? __expf(-riskless * years[i]) : expf(-riskless * years[i]);
        call[i] = price[i] * n1 - strike[i] * discount * n2;
        put[i] = strike[i] * discount * (1.0f - n2) - price[i] * (1.0f - n1);
    }
}

static double normal(double d) { return 0.5 * std::erfc(-d * std::sqrt(0.5)); }

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 65536);
    std::vector<float> price(count), strike(count), years(count);
    std::vector<double> call(count), put(count);
    Inputs inputs;
    for (size_t i = 0; i < count; ++i) {
        price[i] = inputs.uniform(5, 30);
        strike[i] = inputs.uniform(1, 100);
        years[i] = inputs.uniform(0.25f, 10);
        const double s = price[i], x = strike[i], t = years[i], v = volatility, r = riskless;
        const double d1 = (std::log(s / x) + (r + 0.5 * v * v) * t) / (v * std::sqrt(t));
        const double d2 = d1 - v * std::sqrt(t);
        call[i] = s * normal(d1) - x * std::exp(-r * t) * normal(d2);
        put[i] = x * std::exp(-r * t) * normal(-d2) - s * normal(-d1);
    }

    float *device_price = device_copy(price);
    float *device_strike = device_copy(strike);
    float *device_years = device_copy(years);
    float *device_call = device_alloc<float>(count);
    float *device_put = device_alloc<float>(count);
    Verdict verdict;
    for (const bool fast : {false, true}) {
        CHECK(cudaMemset(device_call, 0xff, count * sizeof(float)));
        CHECK(cudaMemset(device_put, 0xff, count * sizeof(float)));
        auto kernel = fast ? black_scholes<true> : black_scholes<false>;
        kernel<<<64, 128>>>(device_price, device_strike, device_years, device_call, device_put, count);
        CHECK_LAUNCH();
        const std::vector<float> got_call = host_copy(device_call, count);
        const std::vector<float> got_put = host_copy(device_put, count);
        // Differences of products near 100 with a 7.5e-8 polynomial and f32 rounding: below 1e-4.
        verdict.near(fast ? "call, fast functions" : "call", got_call.data(), call.data(), count, 1e-5, 1e-4);
        verdict.near(fast ? "put, fast functions" : "put", got_put.data(), put.data(), count, 1e-5, 1e-4);
    }
    for (float *pointer : {device_price, device_strike, device_years, device_call, device_put})
        CHECK(cudaFree(pointer));
    return verdict.finish();
}
