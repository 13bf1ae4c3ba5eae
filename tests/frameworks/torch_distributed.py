"""torch.distributed by NCCL with a process for each GPU that the program sees, one or several: every collective, groups, a
captured sum, a model by DistributedDataParallel. Sums are of whole numbers, exact in any order."""
# run alone
# every gpu

import os
import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn

from checking import check, equal, main

COUNT = 1 << 18


def by_ranks(work):
    """Runs `work(rank, ranks)` in a process for each GPU; a rank that fails fails the check."""
    ranks = torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(a_rank, (work, ranks, os.path.join(folder, "meeting")), nprocs=ranks)


def a_rank(rank, work, ranks, meeting):
    """One of them."""
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=rank, world_size=ranks, device_id=device)
    work(rank, ranks)
    torch.cuda.synchronize()
    dist.destroy_process_group()


def full(number, count=COUNT):
    """Whole numbers of this rank's GPU."""
    return torch.full((count,), number, dtype=torch.int64, device="cuda")


def collectives_of(rank, ranks):
    """Each of them, once."""
    x = full(rank + 1)
    dist.all_reduce(x)
    equal("all_reduce", x.unique().tolist(), [ranks * (ranks + 1) // 2])
    x = full(rank + 1)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    equal("the largest", x.unique().tolist(), [ranks])
    x = full(rank * 5 + 3)
    dist.broadcast(x, src=ranks - 1)
    equal("broadcast", x.unique().tolist(), [(ranks - 1) * 5 + 3])
    gathered = torch.empty(ranks * COUNT, dtype=torch.int64, device="cuda")
    dist.all_gather_into_tensor(gathered, full(rank))
    equal("all_gather", gathered.view(ranks, -1).sum(1).tolist(), [number * COUNT for number in range(ranks)])
    part = torch.empty(COUNT, dtype=torch.int64, device="cuda")
    dist.reduce_scatter_tensor(part, torch.arange(ranks, device="cuda").repeat_interleave(COUNT))
    equal("reduce_scatter", part.unique().tolist(), [rank * ranks])
    exchanged = torch.empty(ranks * COUNT, dtype=torch.int64, device="cuda")
    dist.all_to_all_single(exchanged, full(rank, ranks * COUNT))
    equal("all_to_all", exchanged.view(ranks, -1).sum(1).tolist(), [number * COUNT for number in range(ranks)])
    received = full(-1)
    ring = [
        dist.P2POp(dist.isend, full(rank), (rank + 1) % ranks),
        dist.P2POp(dist.irecv, received, (rank - 1) % ranks),
    ]
    for request in dist.batch_isend_irecv(ring) if ranks > 1 else []:
        request.wait()
    equal("from the one before", received.unique().tolist(), [(rank - 1) % ranks if ranks > 1 else -1])
    dist.barrier()
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    equal("objects", objects, [{"rank": number} for number in range(ranks)])


@check
def collectives():
    by_ranks(collectives_of)


def groups_of(rank, ranks):
    """A group of one for each rank, beside the one of all."""
    groups = [dist.new_group([number]) for number in range(ranks)]
    x = full(rank + 2)
    dist.all_reduce(x, group=groups[rank])
    equal("a group of one", x.unique().tolist(), [rank + 2])
    dist.all_reduce(x)
    equal("all", x.unique().tolist(), [sum(range(2, ranks + 2))])


@check
def groups():
    by_ranks(groups_of)


def captured_of(rank, ranks):
    """A graph with a sum of all ranks between kernels."""
    x = full(1)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(rank)
        dist.all_reduce(x)
        x.remainder_(1000)
    value = ranks
    for _ in range(5):
        graph.replay()
        value = (ranks * value + sum(range(ranks))) % 1000
    equal("replayed", x.unique().tolist(), [value])


@check
def captured():
    by_ranks(captured_of)


def trained(rank, ranks):
    """Weights that begin equal stay equal; gradients are means of whole numbers."""
    model = nn.Linear(4, 4, bias=False, device="cuda")
    with torch.no_grad():
        model.weight.zero_()
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(parallel.parameters(), lr=1.0)
    for step in range(4):
        optimizer.zero_grad()
        parallel(torch.full((2, 4), float(ranks * (step + rank)), device="cuda")).sum().backward()
        optimizer.step()
    expected = -2.0 * sum(sum(step + number for number in range(ranks)) for step in range(4))
    equal("weights", model.weight.unique().tolist(), [expected])


@check
def data_parallel_training():
    by_ranks(trained)


if __name__ == "__main__":
    main()
