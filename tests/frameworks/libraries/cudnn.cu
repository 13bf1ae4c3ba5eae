// cuDNN: a convolution by every forward algorithm it offers, its gradients, pooling, softmax. Ones in give counts out;
// drawn numbers are compared with a plain loop.
// link: libcudnn.so.9
#include <cudnn.h>

#include "checking.h"

constexpr int kBatch = 2, kIn = 3, kOut = 5, kSize = 16, kKernel = 3;
constexpr int kX = kBatch * kIn * kSize * kSize, kW = kOut * kIn * kKernel * kKernel, kY = kBatch * kOut * kSize * kSize;

struct Convolution {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t how;

    Convolution() {
        GOOD(cudnnCreate(&handle));
        GOOD(cudnnCreateTensorDescriptor(&x));
        GOOD(cudnnCreateTensorDescriptor(&y));
        GOOD(cudnnCreateFilterDescriptor(&w));
        GOOD(cudnnCreateConvolutionDescriptor(&how));
        GOOD(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kBatch, kIn, kSize, kSize));
        GOOD(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kBatch, kOut, kSize, kSize));
        GOOD(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kOut, kIn, kKernel, kKernel));
        GOOD(cudnnSetConvolution2dDescriptor(how, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
        GOOD(cudnnSetConvolutionMathType(how, CUDNN_FMA_MATH));
    }
    ~Convolution() { cudnnDestroy(handle); }
};

static std::vector<float> single(const std::vector<double> &values) { return {values.begin(), values.end()}; }

// One output's sum over channels and kernel, with a border of zeros.
static double by_hand(const std::vector<float> &x, const std::vector<float> &w, int image, int out, int row, int column) {
    double sum = 0;
    for (int in = 0; in < kIn; ++in) {
        for (int down = 0; down < kKernel; ++down) {
            for (int right = 0; right < kKernel; ++right) {
                const int r = row + down - 1, c = column + right - 1;
                if (r < 0 || r >= kSize || c < 0 || c >= kSize) continue;
                sum += static_cast<double>(x[((image * kIn + in) * kSize + r) * kSize + c]) *
                       w[((out * kIn + in) * kKernel + down) * kKernel + right];
            }
        }
    }
    return sum;
}

static void forward() {
    Convolution work;
    const auto x = single(numbers(kX, 1)), w = single(numbers(kW, 2));
    float *dx = to_device(x), *dw = to_device(w), *dy = to_device(std::vector<float>(kY));
    cudnnConvolutionFwdAlgoPerf_t offers[16];
    int count = 0, tried = 0;
    GOOD(cudnnGetConvolutionForwardAlgorithm_v7(work.handle, work.x, work.w, work.how, work.y, 16, &count, offers));
    for (int at = 0; at < count; ++at) {
        if (offers[at].status != CUDNN_STATUS_SUCCESS) continue;
        size_t size = 0;
        void *workspace = nullptr;
        GOOD(cudnnGetConvolutionForwardWorkspaceSize(work.handle, work.x, work.w, work.how, work.y, offers[at].algo, &size));
        GOOD(cudaMalloc(&workspace, size + 16));
        const float one = 1, zero = 0;
        GOOD(cudaMemset(dy, 0, kY * sizeof(float)));
        GOOD(cudnnConvolutionForward(work.handle, &one, work.x, dx, work.w, dw, work.how, offers[at].algo, workspace, size,
                                     &zero, work.y, dy));
        const auto y = to_host(dy, kY);
        for (int place = 0; place < kY; ++place) {
            const int column = place % kSize, row = place / kSize % kSize, out = place / (kSize * kSize) % kOut;
            near_to("output", y[place], by_hand(x, w, place / (kOut * kSize * kSize), out, row, column), 1e-2);
        }
        GOOD(cudaFree(workspace));
        ++tried;
    }
    expect(tried > 0, "no algorithm is offered");
}

static void gradients() {
    Convolution work;
    const auto x = single(numbers(kX, 3)), w = single(numbers(kW, 4));
    float *dx = to_device(x), *dw = to_device(w), *dy = to_device(std::vector<float>(kY, 1.0f));
    float *gx = to_device(std::vector<float>(kX)), *gw = to_device(std::vector<float>(kW));
    const float one = 1, zero = 0;
    void *workspace = nullptr;
    GOOD(cudaMalloc(&workspace, 64 << 20));
    GOOD(cudnnConvolutionBackwardData(work.handle, &one, work.w, dw, work.y, dy, work.how, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                      workspace, 64 << 20, &zero, work.x, gx));
    GOOD(cudnnConvolutionBackwardFilter(work.handle, &one, work.x, dx, work.y, dy, work.how,
                                        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace, 64 << 20, &zero, work.w, gw));
    // With ones behind it, an inner pixel's gradient is the sum of its channel's weights, a filter's centre's that of its channel's pixels.
    const auto of_x = to_host(gx, kX), of_w = to_host(gw, kW);
    for (int in = 0; in < kIn; ++in) {
        double weights = 0, pixels = 0;
        for (int out = 0; out < kOut; ++out) {
            for (int at = 0; at < kKernel * kKernel; ++at) weights += w[(out * kIn + in) * kKernel * kKernel + at];
        }
        for (int image = 0; image < kBatch; ++image) {
            for (int at = 0; at < kSize * kSize; ++at) pixels += x[(image * kIn + in) * kSize * kSize + at];
        }
        near_to("by data", of_x[(in * kSize + 8) * kSize + 8], weights, 1e-2);
        near_to("by filter", of_w[in * kKernel * kKernel + 4], pixels, 1e-2);
    }
}

static void pooling_and_softmax() {
    Convolution work;
    std::vector<float> x(kX);
    for (int at = 0; at < kX; ++at) x[at] = static_cast<float>(at % 1000);
    float *dx = to_device(x), *dy = to_device(std::vector<float>(kX / 4));
    cudnnPoolingDescriptor_t pooling;
    cudnnTensorDescriptor_t y;
    const float one = 1, zero = 0;
    GOOD(cudnnCreatePoolingDescriptor(&pooling));
    GOOD(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    GOOD(cudnnCreateTensorDescriptor(&y));
    GOOD(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kBatch, kIn, kSize / 2, kSize / 2));
    GOOD(cudnnPoolingForward(work.handle, pooling, &one, work.x, dx, &zero, y, dy));
    near_to("the first maximum", to_host(dy, 1)[0], 17, 0);
    GOOD(cudnnSoftmaxForward(work.handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, work.x, dx, &zero, work.x, dx));
    const auto shares = to_host(dx, kX);
    for (int at = 0; at < kSize * kSize; ++at) {
        near_to("sum over channels", shares[at] + shares[at + kSize * kSize] + shares[at + 2 * kSize * kSize], 1, 1e-5);
    }
}

int main(int argc, char **argv) {
    return run_checks({{"forward", forward}, {"gradients", gradients}, {"pooling_and_softmax", pooling_and_softmax}}, argc, argv);
}
