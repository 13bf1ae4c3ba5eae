// The functions of CUDA's math library in f32 and f64, and integer and bit operations, over ranges with the special
// cases. Each is compared with the CPU's in higher precision, in units in the last place.
// No argument. The allowed errors are those the CUDA programming guide states; integers must be equal.
#include "check.h"

#include <cfloat>
#include <climits>
#include <cstring>

constexpr unsigned count = 2048;

// One function of one argument: how to call it on either side, over which range, and the error allowed.
struct Function {
    const char *name;
    double low, high;
    double ulps;
};

#define FUNCTIONS_OF_ONE(X)      \
    X(sqrt, 0, 1e6, 0)           \
    X(rsqrt, 1e-3, 1e6, 2)       \
    X(cbrt, -1e4, 1e4, 1)        \
    X(exp, -30, 30, 2)           \
    X(exp2, -30, 30, 2)          \
    X(exp10, -20, 20, 2)         \
    X(expm1, -5, 20, 1)          \
    X(log, 1e-6, 1e6, 1)         \
    X(log2, 1e-6, 1e6, 1)        \
    X(log10, 1e-6, 1e6, 2)       \
    X(log1p, -0.9, 1e3, 1)       \
    X(sin, -100, 100, 2)         \
    X(cos, -100, 100, 2)         \
    X(tan, -1.5, 1.5, 4)         \
    X(asin, -1, 1, 4)            \
    X(acos, -1, 1, 2)            \
    X(atan, -50, 50, 2)          \
    X(sinh, -10, 10, 3)          \
    X(cosh, -10, 10, 2)          \
    X(tanh, -5, 5, 2)            \
    X(asinh, -100, 100, 3)       \
    X(acosh, 1, 100, 4)          \
    X(atanh, -0.99, 0.99, 3)     \
    X(erf, -4, 4, 2)             \
    X(erfc, -4, 9, 5)            \
    X(tgamma, 0.5, 20, 10)       \
    X(floor, -1e3, 1e3, 0)       \
    X(ceil, -1e3, 1e3, 0)        \
    X(trunc, -1e3, 1e3, 0)       \
    X(rint, -1e3, 1e3, 0)        \
    X(round, -1e3, 1e3, 0)       \
    X(fabs, -1e3, 1e3, 0)

#define DESCRIBE(name, low, high, ulps) {#name, low, high, ulps},
static const Function functions[] = {FUNCTIONS_OF_ONE(DESCRIBE)};
constexpr unsigned function_count = sizeof(functions) / sizeof(functions[0]);

static long double rsqrt_exact(long double x) { return 1 / std::sqrt(x); }
static long double exp10_exact(long double x) { return std::pow(10.0L, x); }

static long double on_cpu(unsigned which, long double x) {
    using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atanh, std::cbrt, std::ceil, std::cos,
        std::cosh, std::erf, std::erfc, std::exp, std::exp2, std::expm1, std::fabs, std::floor, std::log,
        std::log10, std::log1p, std::log2, std::rint, std::round, std::sin, std::sinh, std::sqrt, std::tan,
        std::tanh, std::tgamma, std::trunc;
    const auto rsqrt = rsqrt_exact;
    const auto exp10 = exp10_exact;
    unsigned index = 0;
#define CALL_CPU(name, low, high, ulps) \
    if (which == index++) return name(x);
    FUNCTIONS_OF_ONE(CALL_CPU)
    return 0;
}

// All functions of one width; the overloads of CUDA's headers choose sinf or sin by the argument.
template <typename Real>
__global__ void of_one(const Real *x, Real *out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = 0;
#define CALL_DEVICE(name, low, high, ulps)       \
    out[row * count + i] = name(x[row * count + i]); \
    ++row;
    FUNCTIONS_OF_ONE(CALL_DEVICE)
}

// The spacing of numbers of a format near `value`.
template <typename Real>
static double spacing(double value) {
    const int digits = sizeof(Real) == 4 ? FLT_MANT_DIG : DBL_MANT_DIG;
    const int lowest = sizeof(Real) == 4 ? FLT_MIN_EXP : DBL_MIN_EXP;
    int exponent;
    std::frexp(value, &exponent);
    return std::ldexp(1.0, (exponent > lowest ? exponent : lowest) - digits);
}

template <typename Real>
static void check_of_one(Verdict &verdict) {
    std::vector<Real> x(function_count * count);
    Inputs inputs;
    for (unsigned f = 0; f < function_count; ++f)
        for (unsigned i = 0; i < count; ++i) {
            const double share = (inputs.bits() + inputs.bits() * 0x1p-32) * 0x1p-32;
            x[f * count + i] = static_cast<Real>(functions[f].low + share * (functions[f].high - functions[f].low));
        }
    Real *device_x = device_copy(x), *out = device_alloc<Real>(x.size());
    of_one<<<count / 128, 128>>>(device_x, out);
    CHECK_LAUNCH();
    const std::vector<Real> got = host_copy(out, x.size());
    for (unsigned f = 0; f < function_count; ++f) {
        double largest = 0;
        Real at = 0;
        for (unsigned i = f * count; i < (f + 1) * count; ++i) {
            const long double want = on_cpu(f, x[i]);
            const double error =
                static_cast<double>(std::fabs(got[i] - want)) / spacing<Real>(static_cast<double>(want));
            if (!(error <= largest)) {
                largest = error;
                at = x[i];
            }
        }
        // Half a unit is the rounding itself, which the stated errors leave out.
        const bool ok = largest <= functions[f].ulps + 0.5;
        if (!ok) std::printf("  wrong: %s of %.17g\n", functions[f].name, static_cast<double>(at));
        std::printf("f%zu %s: %.2f ulp of %g\n", 8 * sizeof(Real), functions[f].name, largest, functions[f].ulps);
        verdict.expect(ok, functions[f].name);
    }
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(out));
}

// The values of IEEE 754 and C at the edges.
template <typename Real>
__global__ void special(const Real *in, int *out) {
    const Real zero = in[0], one = in[1], infinity = in[2], nan = in[3], tiny = in[4], huge = in[5];
    int n = 0;
    out[n++] = isnan(sqrt(-one));
    out[n++] = sqrt(-zero) == zero && signbit(sqrt(-zero));
    out[n++] = isinf(log(zero)) && log(zero) < zero;
    out[n++] = isnan(log(-one));
    out[n++] = isinf(exp(huge));
    out[n++] = exp(-infinity) == zero;
    out[n++] = isnan(sin(infinity));
    out[n++] = pow(nan, zero) == one;
    out[n++] = isinf(one / zero) && isinf(-one / zero) && -one / zero < zero;
    out[n++] = isnan(infinity - infinity) && isnan(zero * infinity);
    out[n++] = fmin(nan, one) == one && fmax(one, nan) == one;
    out[n++] = tiny > zero && tiny / (one + one) > zero;  // subnormal numbers are kept
    out[n++] = fma(huge, huge, -infinity) == -infinity;
    out[n++] = copysign(one, -zero) == -one;
    out[n++] = fmod(one * 7, one * 3) == one && remainder(one * 8, one * 3) == -one;
    out[n++] = nextafter(one, infinity) > one;
    out[n++] = ldexp(one, 10) == 1024 && ilogb(one * 1024) == 10;
    out[n++] = (nan < one) + (nan > one) + (nan == nan) == 0;
    out[n++] = hypot(one * 3, one * 4) == 5 && atan2(zero, -one) > 3;
    out[n++] = static_cast<int>(infinity) == INT_MAX && static_cast<int>(-infinity) == INT_MIN;
    out[n++] = static_cast<unsigned>(-one) == 0 && static_cast<int>(Real(-2.75) * one) == -2;
}

template <typename Real>
static void check_special(Verdict &verdict) {
    constexpr int cases = 21;
    const Real least = sizeof(Real) == 4 ? static_cast<Real>(FLT_MIN) : static_cast<Real>(DBL_MIN);
    const Real most = sizeof(Real) == 4 ? static_cast<Real>(FLT_MAX) : static_cast<Real>(DBL_MAX);
    const std::vector<Real> in = {0, 1, static_cast<Real>(INFINITY), static_cast<Real>(NAN), least, most};
    Real *device_in = device_copy(in);
    int *out = device_alloc<int>(cases);
    special<<<1, 1>>>(device_in, out);
    CHECK_LAUNCH();
    const std::vector<int> ones(cases, 1);
    verdict.equal(sizeof(Real) == 4 ? "special values, f32" : "special values, f64", host_copy(out, cases).data(),
                  ones.data(), cases);
    CHECK(cudaFree(device_in));
    CHECK(cudaFree(out));
}

constexpr unsigned integer_columns = 20;

__global__ void integers(const unsigned *x, const unsigned *y, long long *out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned a = x[i], b = y[i];
    const int sa = static_cast<int>(a), sb = static_cast<int>(b);
    const unsigned long long wide = static_cast<unsigned long long>(a) << 32 | b;
    long long *row = &out[i * integer_columns];
    row[0] = __popc(a) + 100 * __popcll(wide);
    row[1] = __clz(sa >> (b % 32)) + 100 * __clzll(static_cast<long long>(wide >> (a % 64)));
    row[2] = __ffs(sa) + 100 * __ffsll(static_cast<long long>(wide));
    row[3] = __brev(a);
    row[4] = static_cast<long long>(__brevll(wide));
    row[5] = __byte_perm(a, b, 0x6135);
    row[6] = __umulhi(a, b);
    row[7] = __mulhi(sa, sb);
    row[8] = static_cast<long long>(__umul64hi(wide, wide * 3));
    row[9] = __sad(sa, sb, 5u);
    row[10] = __funnelshift_l(a, b, b) + static_cast<long long>(__funnelshift_r(a, b, a));
    row[11] = b != 0 ? a / b * 7 + a % b : 0;
    row[12] = sb != 0 && sb != -1 ? static_cast<long long>(sa / sb) * 7 + sa % sb : 0;
    row[13] = static_cast<long long>(wide / (b | 1)) + static_cast<long long>(wide % (a | 1));
    row[14] = static_cast<long long>(wide) / (sb | 1);
    row[15] = static_cast<long long>(sa) * sb + (sa >> (b % 32));
    row[16] = static_cast<signed char>(a) * 3 + static_cast<short>(b) - static_cast<unsigned char>(a >> 8);
    row[17] = min(sa, sb) ^ static_cast<long long>(max(a, b));
    row[18] = __hadd(sa, sb) + static_cast<long long>(__uhadd(a, b)) + __rhadd(sa, sb);
    row[19] = __dp4a(sa, sb, 9) + abs(sa / 2);
}

static long long highest_64(unsigned long long a, unsigned long long b) {
    return static_cast<long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

static void integers_on_cpu(unsigned a, unsigned b, long long *row) {
    const int sa = static_cast<int>(a), sb = static_cast<int>(b);
    const unsigned long long wide = static_cast<unsigned long long>(a) << 32 | b;
    const auto leading = [](unsigned long long v, int width) {
        int zeros = 0;
        while (zeros < width && (v >> (width - 1 - zeros) & 1) == 0) ++zeros;
        return zeros;
    };
    const auto reversed = [](unsigned long long v, int width) {
        unsigned long long out = 0;
        for (int k = 0; k < width; ++k) out |= (v >> k & 1) << (width - 1 - k);
        return out;
    };
    row[0] = __builtin_popcount(a) + 100 * __builtin_popcountll(wide);
    row[1] = leading(static_cast<unsigned>(sa >> (b % 32)), 32) + 100 * leading(wide >> (a % 64), 64);
    row[2] = __builtin_ffs(sa) + 100 * __builtin_ffsll(static_cast<long long>(wide));
    row[3] = static_cast<long long>(reversed(a, 32));
    row[4] = static_cast<long long>(reversed(wide, 64));
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    row[5] = static_cast<unsigned>((bytes >> 40 & 0xff) | (bytes >> 24 & 0xff) << 8 | (bytes >> 8 & 0xff) << 16 |
                                   (bytes >> 48 & 0xff) << 24);
    row[6] = static_cast<long long>(static_cast<unsigned long long>(a) * b >> 32);
    row[7] = static_cast<long long>(sa) * sb >> 32;
    row[8] = highest_64(wide, wide * 3);
    row[9] = static_cast<unsigned>(std::llabs(static_cast<long long>(sa) - sb)) + 5u;
    const unsigned left = b % 32, right = a % 32;
    row[10] = static_cast<unsigned>((bytes << left) >> 32);
    row[10] += static_cast<unsigned>(bytes >> right);
    row[11] = b != 0 ? a / b * 7 + a % b : 0;
    row[12] = sb != 0 && sb != -1 ? static_cast<long long>(sa / sb) * 7 + sa % sb : 0;
    row[13] = static_cast<long long>(wide / (b | 1)) + static_cast<long long>(wide % (a | 1));
    row[14] = static_cast<long long>(wide) / (sb | 1);
    row[15] = static_cast<long long>(sa) * sb + (sa >> (b % 32));
    row[16] = static_cast<signed char>(a) * 3 + static_cast<short>(b) - static_cast<unsigned char>(a >> 8);
    row[17] = (sa < sb ? sa : sb) ^ static_cast<long long>(a > b ? a : b);
    row[18] = (static_cast<long long>(sa) + sb) >> 1;
    row[18] += static_cast<long long>((static_cast<unsigned long long>(a) + b) >> 1);
    row[18] += (static_cast<long long>(sa) + sb + 1) >> 1;
    int dot = 9;
    for (int k = 0; k < 32; k += 8) dot += static_cast<signed char>(a >> k) * static_cast<signed char>(b >> k);
    row[19] = dot + std::abs(sa / 2);
}

static void check_integers(Verdict &verdict) {
    std::vector<unsigned> x(count), y(count);
    Inputs inputs(3);
    const unsigned edges[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 2, 0xaaaaaaaa, 31};
    for (unsigned i = 0; i < count; ++i) {
        x[i] = i < 64 ? edges[i % 8] : inputs.bits() >> inputs.below(24);
        y[i] = i < 64 ? edges[i / 8] : inputs.bits() >> inputs.below(24);
    }
    unsigned *device_x = device_copy(x), *device_y = device_copy(y);
    long long *out = device_alloc<long long>(count * integer_columns);
    integers<<<count / 128, 128>>>(device_x, device_y, out);
    CHECK_LAUNCH();
    const std::vector<long long> got = host_copy(out, count * integer_columns);
    std::vector<long long> want(got.size());
    for (unsigned i = 0; i < count; ++i) integers_on_cpu(x[i], y[i], &want[i * integer_columns]);
    for (unsigned column = 0; column < integer_columns; ++column) {
        std::vector<long long> g, w;
        for (unsigned i = 0; i < count; ++i) {
            g.push_back(got[i * integer_columns + column]);
            w.push_back(want[i * integer_columns + column]);
        }
        static const char *names[] = {"popc", "clz", "ffs", "brev", "brevll", "byte_perm", "umulhi", "mulhi",
                                      "umul64hi", "sad", "funnel shift", "u32 division", "s32 division",
                                      "u64 division", "s64 division", "wide multiply", "narrow types",
                                      "min and max", "halved sums", "dp4a"};
        verdict.equal(names[column], g.data(), w.data(), count);
    }
    CHECK(cudaFree(device_x));
    CHECK(cudaFree(device_y));
    CHECK(cudaFree(out));
}

int main() {
    Verdict verdict;
    check_of_one<float>(verdict);
    check_of_one<double>(verdict);
    check_special<float>(verdict);
    check_special<double>(verdict);
    check_integers(verdict);
    return verdict.finish();
}
