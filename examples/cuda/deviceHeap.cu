// Memory that kernels allocate: each thread makes a list in one kernel, another kernel adds it up, a third frees it.
// No argument. Checks every sum, over rounds, so that freed memory is used again.
#include "check.h"

struct Item {
    int value;
    Item *next;
};

__global__ void make(Item **lists, int length, int round) {
    Item *list = nullptr;
    for (int i = 0; i < length; ++i) {
        Item *item = static_cast<Item *>(malloc(sizeof(Item)));
        if (item == nullptr) break;
        *item = {static_cast<int>(threadIdx.x) + i * round, list};
        list = item;
    }
    lists[threadIdx.x] = list;
}

__global__ void add_up(Item *const *lists, int *sums) {
    int sum = 0;
    for (const Item *item = lists[threadIdx.x]; item != nullptr; item = item->next) sum += item->value;
    sums[threadIdx.x] = sum;
}

__global__ void release(Item **lists) {
    for (Item *item = lists[threadIdx.x]; item != nullptr;) {
        Item *next = item->next;
        free(item);
        item = next;
    }
}

int main() {
    constexpr int threads = 64, length = 10, rounds = 5;
    Item **lists;
    int *sums;
    CHECK(cudaMalloc(&lists, threads * sizeof *lists));
    CHECK(cudaMalloc(&sums, threads * sizeof *sums));
    Verdict verdict;
    for (int round = 0; round < rounds; ++round) {
        make<<<1, threads>>>(lists, length, round);
        CHECK_LAUNCH();
        add_up<<<1, threads>>>(lists, sums);
        CHECK_LAUNCH();
        std::vector<int> got(threads), want(threads);
        CHECK(cudaMemcpy(got.data(), sums, threads * sizeof(int), cudaMemcpyDeviceToHost));
        for (int i = 0; i < threads; ++i) want[static_cast<size_t>(i)] = length * i + round * length * (length - 1) / 2;
        verdict.equal("lists that kernels made", got.data(), want.data(), got.size());
        release<<<1, threads>>>(lists);
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
    }
    return verdict.finish();
}
