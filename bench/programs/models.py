"""The models that the measured training steps train: ResNets with SGD, a small GPT with AdamW. A step comes out; calling it
trains on one batch and gives the loss. Batches lie in pinned memory and are copied non-blocking at every step.
`wrap` makes of a model on its GPU one that several train; each rank has batches of its own."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torchvision
from torch import nn
from torch.nn import functional


def be_deterministic(wanted):
    """Has algorithms repeat themselves bit for bit, or not."""
    torch.use_deterministic_algorithms(wanted, warn_only=True)
    torch.backends.cudnn.deterministic = wanted


def as_it_is(model):
    """A model that one GPU trains."""
    return model


def new_resnet18(make=torchvision.models.resnet18, wrap=as_it_is, rank=0):
    """A step of its training, or of what else `make` makes."""
    torch.manual_seed(1)
    model = wrap(make().cuda().train())
    if rank:
        torch.manual_seed(1 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = [
        (torch.randn(32, 3, 224, 224).pin_memory(), torch.randint(0, 1000, (32,)).pin_memory()) for _ in range(4)
    ]
    at = 0

    def step():
        nonlocal at
        images, labels = batches[at % len(batches)]
        at += 1
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


class Block(nn.Module):
    """One transformer block with causal attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        split = self.project(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.merge(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.before_feed(x))


class Gpt(nn.Module):
    """A GPT of 6 layers."""

    def __init__(self, vocabulary=8192, width=384, heads=6, layers=6, length=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.last(self.blocks(self.tokens(tokens) + self.places(places))))


def new_gpt(precision, scaled, wrap=as_it_is, rank=0):
    """A step of its training, in 16 bits; `scaled`: with a GradScaler."""
    torch.manual_seed(2)
    model = wrap(Gpt().cuda().train())
    if rank:
        torch.manual_seed(2 + rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=scaled)
    batches = [torch.randint(0, 8192, (16, 257)).pin_memory() for _ in range(4)]
    at = 0

    def step():
        nonlocal at
        tokens = batches[at % len(batches)].cuda(non_blocking=True)
        at += 1
        with torch.autocast("cuda", dtype=precision):
            guesses = model(tokens[:, :-1])
            loss = functional.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return step
