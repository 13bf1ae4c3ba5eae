"""A few steps of training under torch.profiler; what its trace says of the GPU goes out as JSON.

In: the file to write. Out: events of the GPU, how many of them are linked to a call, and lengths by kernel.
"""

import json
import statistics
import sys
import tempfile
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

STEPS = 10
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(4096, 512), nn.ReLU(), nn.Linear(512, 10),
    ).cuda()


def step(net, optimizer, pictures, labels):
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(net(pictures.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    return loss.item()


def trace():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(64, 3, 64, 64).pin_memory()
    labels = torch.randint(0, 10, (64,)).pin_memory()
    for _ in range(5):
        step(net, optimizer, pictures, labels)
    torch.cuda.synchronize()
    begin = time.monotonic()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        losses = [step(net, optimizer, pictures, labels) for _ in range(STEPS)]
        torch.cuda.synchronize()
    took = time.monotonic() - begin
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        with open(file.name) as text:
            return json.load(text)["traceEvents"], losses, took


def main():
    events, losses, took = trace()
    work = [event for event in events if event.get("cat") in GPU]
    calls = {}
    for event in events:
        if event.get("cat") in CALLS:
            calls[event["args"]["correlation"]] = event
    linked = [event for event in work if event["args"].get("correlation") in calls]
    early = [event for event in linked if event["ts"] < calls[event["args"]["correlation"]]["ts"]]
    by_name = {}
    for event in work:
        by_name.setdefault(event["name"], []).append(event["dur"])
    said = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0),
        "losses": losses,
        "seconds": took,
        "gpu_events": len(work),
        "by_category": {name: sum(event["cat"] == name for event in work) for name in sorted(GPU)},
        "linked": len(linked),
        "begin_before_their_call": len(early),
        "calls": len(calls),
        "names": {
            name: {"count": len(all_), "median_us": statistics.median(all_)} for name, all_ in sorted(by_name.items())
        },
    }
    with open(sys.argv[1], "w") as file:
        json.dump(said, file, indent=1)


main()
