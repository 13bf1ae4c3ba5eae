"""Streams, events and threads in PyTorch: order across streams, timing, queries, priorities, eight threads with streams
of their own, one thread's wait beside another's work; torch.profiler and NVTX, with or without CUPTI's data."""
# run alone

import threading
import time

import torch

from checking import check, equal, main, near


@check
def order_across_streams():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(1 << 22, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    for _ in range(50):
        with torch.cuda.stream(first):
            x.add_(1)
            event = first.record_event()
        second.wait_event(event)
        with torch.cuda.stream(second):
            x.mul_(2)
        first.wait_stream(second)
    torch.cuda.synchronize()
    expected = 0
    for _ in range(50):
        expected = (expected + 1) * 2
    equal("one after the other", x.unique().tolist(), [expected])


@check
def events():
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a = torch.randn(2048, 2048, device="cuda")
    torch.cuda.synchronize()
    begin.record()
    for _ in range(30):
        a @ a
    end.record()
    end.synchronize()
    equal("passed", (begin.query(), end.query()), (True, True))
    equal("time", 0.0 < begin.elapsed_time(end) < 60_000.0, True)


@check
def polled_event():
    a, event = torch.randn(4096, 4096, device="cuda"), torch.cuda.Event()
    for _ in range(10):
        a @ a
    event.record()
    limit = time.monotonic() + 60
    while not event.query():
        equal("it passes", time.monotonic() < limit, True)


@check
def stream_queries():
    stream = torch.cuda.Stream(priority=-1)
    with torch.cuda.stream(stream):
        x = torch.ones(1000, device="cuda") * 3
    stream.synchronize()
    equal("idle", stream.query(), True)
    equal("result", x.sum().item(), 3000.0)
    equal("another stream", stream == torch.cuda.current_stream(), False)


@check
def eight_threads():
    failures = []

    def work(number):
        try:
            torch.cuda.set_device(0)
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for round_number in range(40):
                    pinned = torch.full((10_000,), float(number * 100 + round_number)).pin_memory()
                    x = pinned.to("cuda", non_blocking=True)
                    y = (x * 2 + 1).sum()
                    equal("sum", y.item(), (2.0 * (number * 100 + round_number) + 1) * 10_000)
        except Exception as error:  # Told in the thread that checks.
            failures.append(f"thread {number}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal("failures", failures, [])


@check
def a_wait_holds_up_nobody():
    """While one thread waits for long work on its stream, another finishes many short ones on its own."""
    torch.full((100,), 1.0, device="cuda").sum().item()
    slow, quick, ended = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), []
    torch.cuda.synchronize()

    def wait():
        with torch.cuda.stream(slow):
            torch.cuda._sleep(2_000_000_000)
        slow.synchronize()
        ended.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    with torch.cuda.stream(quick):
        for number in range(20):
            equal("sum", torch.full((100,), float(number), device="cuda").sum().item(), number * 100.0)
    finished = time.monotonic()
    thread.join()
    equal("the short ones were first", finished < ended[0], True)


@check
def backward_in_threads():
    def work(results, number):
        torch.manual_seed(number)
        weight = torch.randn(64, 64).cuda().requires_grad_()
        for _ in range(5):
            (weight @ weight).pow(2).mean().backward()
        results[number] = weight.grad.sum().item()

    together, alone = {}, {}
    threads = [threading.Thread(target=work, args=(together, number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        work(alone, number)
    near("gradients", [together[n] for n in range(4)], [alone[n] for n in range(4)], 1e-3, 1e-4)


@check
def profiler():
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(100, 100, device="cuda")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        (x @ x).sum().item()
    names = {event.key for event in seen.key_averages()}
    equal("the matmul was seen", any("mm" in name for name in names), True)
    with torch.autograd.profiler.profile(use_device="cuda"):
        (x @ x).sum().item()


@check
def nvtx_ranges():
    torch.cuda.nvtx.range_push("work")
    torch.ones(10, device="cuda").sum().item()
    torch.cuda.nvtx.range_pop()


main()
