"""Training steps as programs far from their GPU make them, and the program's own start, as one JSON object on standard output.

Two kinds of step. `resnet18`: a batch of 32 pictures and their labels from pinned memory (19.3 MB), one number back.
`mlp`: two index tensors from pageable memory, one number back.

`waits` counts calls that waited for the server; natively there is nothing to count.
"""

import ctypes
import json
import statistics
import sys
import time

BEGUN = time.monotonic()
WARM, STEPS = 8, 40


def waits():
    """How many calls have waited for a server, or None where the process's driver library is not floe's."""
    try:
        counter = ctypes.CDLL("libcuda.so.1").floe_waits
    except (AttributeError, OSError):
        return None
    counter.restype = ctypes.c_uint64
    return counter()


import torch  # noqa: E402
import torchvision  # noqa: E402
from torch import nn  # noqa: E402

IMPORTED = time.monotonic()


def start():
    """A short script's work: random numbers, a product, a sum on the host."""
    torch.manual_seed(6)
    x = torch.randn(1024, 1024, device="cuda")
    value = (x @ x).sum().item()
    return {"value": value.hex(), "waits": waits(), "seconds": time.monotonic() - IMPORTED, "import": IMPORTED - BEGUN}


def timed(step):
    losses = [step() for _ in range(WARM)]
    before, times = waits(), []
    for _ in range(STEPS):
        begin = time.monotonic()
        losses.append(step())
        times.append(time.monotonic() - begin)
    after = waits()
    return {
        "ms": statistics.median(times) * 1e3,
        "waits": None if before is None else (after - before) / STEPS,
        "losses": [loss.hex() for loss in losses],
    }


def resnet18():
    torch.manual_seed(1)
    net = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(32, 3, 224, 224).pin_memory()
    labels = torch.randint(0, 1000, (32,)).pin_memory()

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(pictures.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        return loss.item()

    return timed(step)


def mlp():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    words, labels = torch.randint(0, 1000, (64,)), torch.randint(0, 10, (64,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(words.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        return loss.item()

    return timed(step)


def main():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    said = {"start": start()}
    if len(sys.argv) < 2:
        said |= {"resnet18": resnet18(), "mlp": mlp()}
    print(json.dumps(said))


main()
