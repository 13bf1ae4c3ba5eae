"""Training steps on two GPUs: ResNet-50 and a small GPT by DistributedDataParallel, the GPT by FSDP2, ResNet-50 by DataParallel.
Rank 0 is the measured process. Rank 1 is its child, which makes a step whenever rank 0 does and stands still otherwise, so that no
collective of one way runs while another is timed. The losses of rank 0 must equal native's bit for bit."""

import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torchvision
from torch import multiprocessing, nn
from torch.distributed.fsdp import fully_shard

import measuring
from models import be_deterministic, new_gpt, new_resnet18

warnings.filterwarnings("ignore")
RANKS = 2
COMPARED_STEPS = 10


def of_each(model):
    """A replica on each rank's GPU."""
    return nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])


def sharded(model):
    """A part of each parameter on each rank's GPU."""
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def resnet50(wrap, rank=0):
    """A step of it."""
    return new_resnet18(torchvision.models.resnet50, wrap, rank)


# Sections whose ranks are processes: a rank comes in, a step goes out.
BY_RANKS = {
    "ddp_resnet50": lambda rank: resnet50(of_each, rank),
    "ddp_gpt": lambda rank: new_gpt(torch.bfloat16, False, of_each, rank),
    "fsdp2_gpt": lambda rank: new_gpt(torch.bfloat16, False, sharded, rank),
}


def join(rank, meeting):
    """Becomes this rank."""
    be_deterministic(True)
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)


def follow(section, meeting, told):
    """Rank 1: a step for each word."""
    # What this prints would be taken for a finding.
    os.dup2(2, 1)
    join(1, meeting)
    step = BY_RANKS[section](1)
    while told.recv():
        step()
    torch.cuda.synchronize()
    dist.destroy_process_group()


def by_ranks(section):
    """Measures rank 0's step while rank 1 makes it as well."""
    folder = tempfile.mkdtemp()
    meeting = os.path.join(folder, "meeting")
    hears, tells = multiprocessing.get_context("spawn").Pipe(False)
    other = multiprocessing.get_context("spawn").Process(target=follow, args=(section, meeting, hears), daemon=True)
    other.start()
    join(0, meeting)
    step = BY_RANKS[section](0)

    def both():
        tells.send(True)
        return step()

    measured(section, both)
    tells.send(False)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    other.join()
    if other.exitcode:
        raise RuntimeError(f"rank 1 ended with {other.exitcode}")


def by_threads():
    """Measures a step of one process that has both GPUs."""
    be_deterministic(True)
    measured("dp_resnet50", resnet50(nn.DataParallel))


def measured(section, step):
    """Reports losses and the time of a step."""
    measuring.result(f"{section}.losses", [step() for _ in range(COMPARED_STEPS)])
    be_deterministic(False)
    measuring.measure(f"{section}.step", step, warm=5)


if __name__ == "__main__":
    # Ranks are processes of their own: they are all of a section's process, which is not left for the next.
    assert torch.cuda.device_count() >= RANKS or sys.exit("two GPUs are needed")
    measuring.run({**{name: lambda name=name: by_ranks(name) for name in BY_RANKS}, "dp_resnet50": by_threads})
