// Arithmetic in f16, bf16 and f64: scalar and paired multiply-add, conversions in every rounding the hardware has,
// comparisons, functions, atomics and floats of 8 bits.
// No argument. Conversions and single operations must be right to the last bit (the CPU rounds by its own
// code here); functions within the stated tolerance.
#include "check.h"

#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// How one 16-bit format is laid out.
struct Format {
    int mantissa_bits, exponent_bits;
};
constexpr Format f16{10, 5};
constexpr Format bf16{7, 8};

// The value of 16 bits in a format.
static double decode(uint16_t bits, Format format) {
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const int exponent = (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
    const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
    double value;
    if (exponent == (1 << format.exponent_bits) - 1)
        value = mantissa != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        value = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
    else
        value = std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - bias - format.mantissa_bits);
    return (bits & 0x8000) != 0 ? -value : value;
}

// The nearest 16-bit value, ties to even; exact for any long double.
static uint16_t encode(long double value, Format format) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    const uint16_t infinity = static_cast<uint16_t>(((1 << format.exponent_bits) - 1) << format.mantissa_bits);
    if (std::isnan(value)) return 0x7fff;  // CUDA's canonical NaN of both formats
    const long double magnitude = std::fabs(value);
    if (magnitude == 0) return sign;
    if (std::isinf(magnitude)) return sign | infinity;
    int exponent = std::ilogb(magnitude);
    if (exponent < 1 - bias) exponent = 1 - bias;  // subnormal: the spacing stops shrinking
    // In units of the last place; nearbyint rounds ties to even.
    const long double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    // The hidden bit adds one to the exponent field, and a carry out of the mantissa does so as well.
    const uint32_t bits =
        static_cast<uint32_t>(units) + (static_cast<uint32_t>(exponent + bias - 1) << format.mantissa_bits);
    return sign | static_cast<uint16_t>(bits < infinity ? bits : infinity);
}

// Every 16-bit pattern to f32 and back, as bits.
__global__ void widen(float *from_half, float *from_bfloat, uint16_t *half_again, uint16_t *bfloat_again) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half h = __ushort_as_half(static_cast<unsigned short>(i));
    const __nv_bfloat16 b = __ushort_as_bfloat16(static_cast<unsigned short>(i));
    from_half[i] = __half2float(h);
    from_bfloat[i] = __bfloat162float(b);
    half_again[i] = __half_as_ushort(__float2half_rn(from_half[i]));
    bfloat_again[i] = __bfloat16_as_ushort(__float2bfloat16_rn(from_bfloat[i]));
}

struct Narrowed {
    uint16_t half_near, half_zero, half_up, half_down, bfloat_near, half_of_double;
};

__global__ void narrow(const float *values, Narrowed *out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float v = values[i];
    out[i] = {__half_as_ushort(__float2half_rn(v)),      __half_as_ushort(__float2half_rz(v)),
              __half_as_ushort(__float2half_ru(v)),      __half_as_ushort(__float2half_rd(v)),
              __bfloat16_as_ushort(__float2bfloat16(v)), __half_as_ushort(__double2half(v))};
}

struct Results {
    uint16_t half_add, half_mul, half_fma, bfloat_add, bfloat_mul, bfloat_fma;
    uint16_t half2_fma[2], bfloat2_fma[2];
    double double_fma;
    int less, equal;
};

__global__ void arithmetic(const uint16_t *x, const uint16_t *y, const uint16_t *z, Results *out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const __half a = __ushort_as_half(x[i]), b = __ushort_as_half(y[i]), c = __ushort_as_half(z[i]);
    const __nv_bfloat16 p = __ushort_as_bfloat16(x[i]), q = __ushort_as_bfloat16(y[i]),
                        r = __ushort_as_bfloat16(z[i]);
    Results result;
    result.half_add = __half_as_ushort(__hadd_rn(a, b));
    result.half_mul = __half_as_ushort(__hmul_rn(a, b));
    result.half_fma = __half_as_ushort(__hfma(a, b, c));
    result.bfloat_add = __bfloat16_as_ushort(__hadd_rn(p, q));
    result.bfloat_mul = __bfloat16_as_ushort(__hmul_rn(p, q));
    result.bfloat_fma = __bfloat16_as_ushort(__hfma(p, q, r));
    const __half2 pair = __hfma2(__halves2half2(a, b), __halves2half2(b, c), __halves2half2(c, a));
    result.half2_fma[0] = __half_as_ushort(__low2half(pair));
    result.half2_fma[1] = __half_as_ushort(__high2half(pair));
    const __nv_bfloat162 other =
        __hfma2(__halves2bfloat162(p, q), __halves2bfloat162(q, r), __halves2bfloat162(r, p));
    result.bfloat2_fma[0] = __bfloat16_as_ushort(__low2bfloat16(other));
    result.bfloat2_fma[1] = __bfloat16_as_ushort(__high2bfloat16(other));
    result.double_fma = fma(static_cast<double>(__half2float(a)), 1.0 / 3.0, static_cast<double>(__half2float(c)));
    result.less = __hlt(a, b);
    result.equal = __heq(p, q);
    out[i] = result;
}

__global__ void functions(const float *x, float *out, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const __half h = __float2half(x[i]);
    const __nv_bfloat16 b = __float2bfloat16(x[i]);
    float *row = &out[i * 8];
    row[0] = __half2float(hexp(h));
    row[1] = __half2float(hlog(h));
    row[2] = __half2float(hsqrt(h));
    row[3] = __half2float(hrcp(h));
    row[4] = __half2float(hsin(h));
    row[5] = __bfloat162float(hexp(b));
    row[6] = __bfloat162float(hsqrt(b));
    row[7] = __half2float(__hdiv(__float2half(1.0f), h));
}

__global__ void accumulate(__half *half_sum, __half2 *half2_sum, __nv_bfloat16 *bfloat_sum, double *double_sum) {
    atomicAdd(half_sum, __float2half(0.25f));
    atomicAdd(half2_sum, __floats2half2_rn(0.5f, -0.25f));
    atomicAdd(bfloat_sum, __float2bfloat16(0.5f));
    atomicAdd(double_sum, 0.1);
}

static void check_conversions(Verdict &verdict) {
    constexpr unsigned all = 65536;
    float *from_half = device_alloc<float>(all), *from_bfloat = device_alloc<float>(all);
    uint16_t *half_again = device_alloc<uint16_t>(all), *bfloat_again = device_alloc<uint16_t>(all);
    widen<<<all / 256, 256>>>(from_half, from_bfloat, half_again, bfloat_again);
    CHECK_LAUNCH();
    std::vector<double> want_half(all), want_bfloat(all);
    std::vector<uint16_t> half_bits(all), bfloat_bits(all);
    for (unsigned i = 0; i < all; ++i) {
        want_half[i] = decode(static_cast<uint16_t>(i), f16);
        want_bfloat[i] = decode(static_cast<uint16_t>(i), bf16);
        half_bits[i] = std::isnan(want_half[i]) ? 0x7fff : static_cast<uint16_t>(i);
        bfloat_bits[i] = std::isnan(want_bfloat[i]) ? 0x7fff : static_cast<uint16_t>(i);
    }
    verdict.near("f16 to f32", host_copy(from_half, all).data(), want_half.data(), all, 0, 0);
    verdict.near("bf16 to f32", host_copy(from_bfloat, all).data(), want_bfloat.data(), all, 0, 0);
    verdict.equal("f16 to f32 and back", host_copy(half_again, all).data(), half_bits.data(), all);
    verdict.equal("bf16 to f32 and back", host_copy(bfloat_again, all).data(), bfloat_bits.data(), all);
    for (void *pointer : {(void *)from_half, (void *)from_bfloat, (void *)half_again, (void *)bfloat_again})
        CHECK(cudaFree(pointer));

    std::vector<float> values = {0.0f, -0.0f, 65504, 65519.99f, 65520, 1e9f, -1e9f, INFINITY, 5.96e-8f, 2.98e-8f,
                                 2.9802322e-8f, 1e-40f, 1.0009766f, 1.0004883f, 1.0014648f, 3.3895314e38f};
    Inputs inputs;
    while (values.size() < 4096) {
        const uint32_t bits = inputs.bits();
        float value;
        std::memcpy(&value, &bits, 4);
        if (values.size() % 2 == 0) value = inputs.uniform(-2, 2) * std::ldexp(1.0f, int(inputs.below(40)) - 28);
        if (!std::isnan(value)) values.push_back(value);
    }
    float *device_values = device_copy(values);
    Narrowed *device_narrowed = device_alloc<Narrowed>(values.size());
    narrow<<<blocks_for(values.size(), 256), 256>>>(device_values, device_narrowed, unsigned(values.size()));
    CHECK_LAUNCH();
    const std::vector<Narrowed> got = host_copy(device_narrowed, values.size());
    bool nearest = true, directed = true, bfloats = true, doubles = true;
    for (size_t i = 0; i < values.size(); ++i) {
        const double v = values[i];
        nearest &= got[i].half_near == encode(v, f16);
        bfloats &= got[i].bfloat_near == encode(v, bf16);
        doubles &= got[i].half_of_double == encode(v, f16);
        const double zero = decode(got[i].half_zero, f16), up = decode(got[i].half_up, f16),
                     down = decode(got[i].half_down, f16);
        const bool exact = decode(encode(v, f16), f16) == v;
        directed &= up >= v && down <= v && std::fabs(zero) <= std::fabs(v) && zero == (v < 0 ? up : down);
        // The two neighbours of a value are the same if it is exact and adjacent otherwise.
        const uint16_t up_bits = got[i].half_up & 0x7fff, down_bits = got[i].half_down & 0x7fff;
        directed &= exact ? up == v && down == v
                          : (up_bits > down_bits ? up_bits - down_bits : down_bits - up_bits) == 1 ||
                                (up_bits | down_bits) == 1;
    }
    verdict.expect(nearest, "f32 to f16, nearest");
    verdict.expect(directed, "f32 to f16, toward zero, up and down");
    verdict.expect(bfloats, "f32 to bf16, nearest");
    verdict.expect(doubles, "f64 to f16, nearest");
    std::printf("narrowing: %zu values in six ways\n", values.size());
    CHECK(cudaFree(device_values));
    CHECK(cudaFree(device_narrowed));
}

// The correctly rounded a * b + c. For the ranges used here, products of two 16-bit floats and their sums with a third
// are exact in long double's 64 bits. Only `encode` rounds.
static uint16_t fused(double a, double b, double c, Format format) {
    return encode(static_cast<long double>(a) * b + c, format);
}

static void check_arithmetic(Verdict &verdict) {
    constexpr unsigned count = 4096;
    std::vector<uint16_t> x(count), y(count), z(count);
    Inputs inputs(5);
    for (unsigned i = 0; i < count; ++i) {
        // Exponents near one in both formats (f16 reads 0x3c00 as 1, bf16 reads 0x3f80), any mantissa, any sign.
        const auto draw = [&] { return uint16_t((inputs.bits() & 0x83ff) | (0x3800 + 0x400 * inputs.below(4))); };
        x[i] = draw();
        y[i] = i % 16 == 0 ? x[i] : draw();
        z[i] = draw();
    }
    uint16_t *device_x = device_copy(x), *device_y = device_copy(y), *device_z = device_copy(z);
    Results *device_results = device_alloc<Results>(count);
    arithmetic<<<count / 128, 128>>>(device_x, device_y, device_z, device_results, count);
    CHECK_LAUNCH();
    const std::vector<Results> got = host_copy(device_results, count);
    bool half = true, half2 = true, bfloat = true, bfloat2 = true, f64 = true, compare = true;
    for (unsigned i = 0; i < count; ++i) {
        const Results &r = got[i];
        const double a = decode(x[i], f16), b = decode(y[i], f16), c = decode(z[i], f16);
        const double p = decode(x[i], bf16), q = decode(y[i], bf16), s = decode(z[i], bf16);
        half &= r.half_add == encode(a + b, f16) && r.half_mul == encode(a * b, f16) &&
                r.half_fma == fused(a, b, c, f16);
        half2 &= r.half2_fma[0] == fused(a, b, c, f16) && r.half2_fma[1] == fused(b, c, a, f16);
        bfloat &= r.bfloat_add == encode(p + q, bf16) && r.bfloat_mul == encode(p * q, bf16) &&
                  r.bfloat_fma == fused(p, q, s, bf16);
        bfloat2 &= r.bfloat2_fma[0] == fused(p, q, s, bf16) && r.bfloat2_fma[1] == fused(q, s, p, bf16);
        f64 &= r.double_fma == std::fma(a, 1.0 / 3.0, c);
        compare &= r.less == (a < b) && r.equal == (p == q);
    }
    verdict.expect(half, "f16 add, multiply, fma");
    verdict.expect(half2, "f16 pairs");
    verdict.expect(bfloat, "bf16 add, multiply, fma");
    verdict.expect(bfloat2, "bf16 pairs");
    verdict.expect(f64, "f64 fma");
    verdict.expect(compare, "comparisons");
    std::printf("arithmetic: %u triples\n", count);
    for (uint16_t *pointer : {device_x, device_y, device_z}) CHECK(cudaFree(pointer));
    CHECK(cudaFree(device_results));
}

static void check_functions(Verdict &verdict) {
    constexpr unsigned count = 512;
    std::vector<float> x(count);
    Inputs inputs(6);
    for (float &value : x) value = inputs.uniform(0.05f, 6);
    float *device_x = device_copy(x);
    float *device_out = device_alloc<float>(count * 8);
    functions<<<count / 128, 128>>>(device_x, device_out, count);
    CHECK_LAUNCH();
    std::vector<double> want(count * 8);
    for (unsigned i = 0; i < count; ++i) {
        const double h = decode(encode(x[i], f16), f16), b = decode(encode(x[i], bf16), bf16);
        const double row[] = {std::exp(h), std::log(h), std::sqrt(h), 1 / h,
                              std::sin(h), std::exp(b), std::sqrt(b), 1 / h};
        std::memcpy(&want[i * 8], row, sizeof(row));
    }
    const std::vector<float> got = host_copy(device_out, count * 8);
    for (int column = 0; column < 8; ++column) {
        static const char *names[] = {"hexp f16", "hlog f16",  "hsqrt f16",  "hrcp f16",
                                      "hsin f16", "hexp bf16", "hsqrt bf16", "hdiv f16"};
        std::vector<double> g(count), w(count);
        for (unsigned i = 0; i < count; ++i) {
            g[i] = got[i * 8 + column];
            w[i] = want[i * 8 + column];
        }
        const bool narrow = column == 5 || column == 6;
        // Two units in the last place of the format.
        verdict.near(names[column], g.data(), w.data(), count, narrow ? 0x1p-7 : 0x1p-10, 0x1p-10);
    }
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(device_out));
}

// To floats of 8 bits and back, by instructions on the device and by cuda_fp8.h's own arithmetic on the host.
template <__nv_fp8_interpretation_t FORMAT>
__global__ void fp8(const float2 *x, unsigned short *codes, __half2 *back, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    codes[2 * i] = __nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, FORMAT);
    const __half2_raw half = __float22half2_rn(x[i]);
    codes[2 * i + 1] = __nv_cvt_halfraw2_to_fp8x2(half, __NV_SATFINITE, FORMAT);
    const __half2_raw read = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(i), FORMAT);
    back[i] = read;
}

template <__nv_fp8_interpretation_t FORMAT>
static void check_fp8(Verdict &verdict, const char *name) {
    // Every pair of codes is read back; what is converted goes from below the least to beyond the largest.
    const int count = 1 << 16;
    Inputs inputs(11);
    std::vector<float2> x(count);
    for (auto &pair : x) {
        const float scale = std::exp2(inputs.uniform(-20, 17));
        pair = {inputs.uniform(-1, 1) * scale, std::exp2(std::floor(inputs.uniform(-20, 17))) * 1.0625f};
    }
    float2 *device_x = device_copy(x);
    auto *codes = device_alloc<unsigned short>(2 * count);
    auto *back = device_alloc<__half2>(count);
    fp8<FORMAT><<<count / 256, 256>>>(device_x, codes, back, count);
    CHECK_LAUNCH();
    std::vector<unsigned short> want;
    std::vector<__half2> read;
    for (int i = 0; i < count; ++i) {
        want.push_back(__nv_cvt_float2_to_fp8x2(x[i], __NV_SATFINITE, FORMAT));
        const __half2_raw half = __float22half2_rn(x[i]);
        want.push_back(__nv_cvt_halfraw2_to_fp8x2(half, __NV_SATFINITE, FORMAT));
        const __half2_raw both = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(i), FORMAT);
        read.push_back(both);
    }
    verdict.equal(name, host_copy(codes, 2 * count).data(), want.data(), want.size());
    int wrong = 0;
    const auto got = host_copy(back, count);
    for (int i = 0; i < count; ++i) {
        const float2 a = __half22float2(got[i]), b = __half22float2(read[i]);
        auto same = [](float one, float other) { return one == other || (std::isnan(one) && std::isnan(other)); };
        if (!same(a.x, b.x) || !same(a.y, b.y)) ++wrong;
    }
    verdict.expect(wrong == 0, "codes read back");
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(codes));
    CHECK(cudaFree(back));
}

static void check_atomics(Verdict &verdict) {
    void *sums = nullptr;
    CHECK(cudaMalloc(&sums, 256));
    CHECK(cudaMemset(sums, 0, 256));
    auto *bytes = static_cast<char *>(sums);
    // 256 additions whose every partial sum is exact, but for the last kind.
    accumulate<<<4, 64>>>(reinterpret_cast<__half *>(bytes), reinterpret_cast<__half2 *>(bytes + 64),
                          reinterpret_cast<__nv_bfloat16 *>(bytes + 128), reinterpret_cast<double *>(bytes + 192));
    CHECK_LAUNCH();
    std::vector<char> got(256);
    CHECK(cudaMemcpy(got.data(), sums, 256, cudaMemcpyDeviceToHost));
    uint16_t half, pair[2], bfloat;
    double f64;
    std::memcpy(&half, &got[0], 2);
    std::memcpy(pair, &got[64], 4);
    std::memcpy(&bfloat, &got[128], 2);
    std::memcpy(&f64, &got[192], 8);
    const double values[] = {decode(half, f16), decode(pair[0], f16), decode(pair[1], f16), decode(bfloat, bf16), f64};
    const double want[] = {64, 128, -64, 128, 25.6};
    verdict.near("sums by atomics", values, want, 5, 1e-13, 0);
    CHECK(cudaFree(sums));
}

int main() {
    Verdict verdict;
    check_conversions(verdict);
    check_arithmetic(verdict);
    check_functions(verdict);
    check_atomics(verdict);
    check_fp8<__NV_E4M3>(verdict, "to e4m3");
    check_fp8<__NV_E5M2>(verdict, "to e5m2");
    return verdict.finish();
}
