"""PyTorch's allocators: the caching one, the one with expandable segments (virtual memory management calls), CUDA's own
stream-ordered one. What lies in memory stays whole while other memory comes and goes; statistics and limits hold."""
# run alone
# run with:
# run with: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
# run with: PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync

import random

import torch

from checking import check, equal, main

ASYNC = torch.cuda.get_allocator_backend() == "cudaMallocAsync"


@check
def contents_stay():
    """Many sizes, freed in another order than they came: each tensor holds its own number until it goes."""
    dice, alive = random.Random(1), []
    for number in range(400):
        size = dice.choice([1, 100, 5_000, 300_000, 3_000_000]) + dice.randrange(1000)
        alive.append((number, torch.full((size,), number, dtype=torch.int32, device="cuda")))
        if len(alive) > 40:
            which, tensor = alive.pop(dice.randrange(len(alive)))
            equal("a tensor's content", (tensor.min().item(), tensor.max().item()), (which, which))
    for which, tensor in alive:
        equal("what is left", (tensor.min().item(), tensor.max().item()), (which, which))


@check
def one_large_tensor_grows():
    """Segments that grow: each larger tensor takes the place of the last."""
    for megabytes in (1, 8, 40, 200, 600):
        tensor = torch.ones(megabytes << 18, device="cuda")
        equal("sum", tensor.double().sum().item(), float(megabytes << 18))
        del tensor
    torch.cuda.empty_cache()


@check
def emptied_cache():
    tensor = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    equal("allocated", torch.cuda.memory_allocated() >= 64 << 20, True)
    equal("reserved", torch.cuda.memory_reserved() >= torch.cuda.memory_allocated(), True)
    allocated = torch.cuda.memory_allocated()
    del tensor
    equal("freed", torch.cuda.memory_allocated(), allocated - (64 << 20))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    equal("given back", torch.cuda.memory_reserved() <= allocated, True)


@check
def statistics():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    tensor = torch.zeros(10 << 20, dtype=torch.uint8, device="cuda")
    del tensor
    equal("peak", torch.cuda.max_memory_allocated() - before >= 10 << 20, True)
    equal("summary", "allocated" in torch.cuda.memory_summary().lower(), True)
    if not ASYNC:
        equal("segments", len(torch.cuda.memory_snapshot()) > 0, True)


@check
def device_memory_falls_and_rises():
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    before, total = torch.cuda.mem_get_info()
    tensor = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    during, _ = torch.cuda.mem_get_info()
    equal("less is free", before - during >= 500 << 20, True)
    equal("within the device", during < total, True)
    del tensor
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    equal("it comes back", torch.cuda.mem_get_info()[0] >= before - (64 << 20), True)


@check
def too_much_is_refused():
    """More than the device has: an error by name, and the context goes on."""
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(total + (1 << 30), dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        equal("the words", "out of memory" in str(error).lower(), True)
    else:
        raise AssertionError("more memory than there is was handed out")
    equal("the device goes on", torch.ones(1000, device="cuda").sum().item(), 1000.0)


@check
def used_on_another_stream():
    """Memory that a side stream still uses is not handed out again."""
    side = torch.cuda.Stream()
    for number in range(10):
        tensor = torch.full((1 << 20,), number, dtype=torch.int64, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        # The loop gives it up while the side stream may not have read it.
        tensor.record_stream(side)
        with torch.cuda.stream(side):
            for _ in range(20):
                tensor = tensor + 1
            total = tensor.sum()
        tensor.record_stream(side)
        del tensor
        torch.full((1 << 20,), -1, dtype=torch.int64, device="cuda")
        side.synchronize()
        equal("sum", total.item(), (number + 20) << 20)


@check
def fraction():
    if ASYNC:
        return
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(min(1.0, (256 << 20) / total))
    try:
        torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("the fraction was not kept")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


main()
