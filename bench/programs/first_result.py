"""The start of a PyTorch program: import, context, random numbers, a matmul, a sum on the host.
The time from the start of the process to the mark is what somebody waits who runs a short script."""

import measuring


def start():
    import torch

    torch.manual_seed(6)
    x = torch.randn(1024, 1024, device="cuda")
    value = (x @ x).sum().item()
    measuring.mark("start.first_result")
    measuring.result("start.value", [value])


measuring.run({"start": start})
