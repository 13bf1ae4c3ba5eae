"""Networks and their training in PyTorch: cuDNN layers, optimizers, mixed precision, a data loader, losses that fall.
Losses with deterministic algorithms go out as values that native and floe must share bit for bit."""

import copy
import os
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torchvision
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from checking import check, equal, main, near

warnings.filterwarnings("ignore")
torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cudnn.deterministic = True


@check
def convolutions():
    torch.manual_seed(0)
    layers = {
        "2d": (nn.Conv2d(8, 16, 3, padding=1, stride=2), (4, 8, 32, 32)),
        "grouped": (nn.Conv2d(8, 16, 5, groups=4), (4, 8, 32, 32)),
        "dilated": (nn.Conv2d(8, 8, 3, dilation=2), (2, 8, 20, 20)),
        "1d": (nn.Conv1d(8, 16, 7), (4, 8, 100)),
        "3d": (nn.Conv3d(4, 8, 3), (2, 4, 10, 10, 10)),
        "transposed": (nn.ConvTranspose2d(8, 4, 4, stride=2), (2, 8, 9, 9)),
    }
    torch.backends.cudnn.allow_tf32 = False
    for name, (layer, shape) in layers.items():
        x = torch.randn(shape)
        on_device = copy.deepcopy(layer).cuda()
        y, reference = on_device(x.cuda()), layer(x)
        near(name, y, reference, 1e-3, 1e-4)
        y.square().sum().backward()
        reference.square().sum().backward()
        near(f"{name}'s gradient", on_device.weight.grad, layer.weight.grad, 1e-2, 1e-2)


@check
def recurrent():
    torch.manual_seed(1)
    layer, x = nn.LSTM(32, 64, num_layers=2, batch_first=True), torch.randn(4, 25, 32)
    torch.backends.cudnn.allow_tf32 = False
    near("lstm", copy.deepcopy(layer).cuda()(x.cuda())[0], layer(x)[0], 1e-3, 1e-4)


@check
def normalization_and_pooling():
    torch.manual_seed(2)
    x = torch.randn(4, 16, 24, 24)
    layers = [nn.BatchNorm2d(16), nn.GroupNorm(4, 16), nn.MaxPool2d(3, 2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(5),
              nn.Upsample(scale_factor=2, mode="bilinear"), nn.Softmax(1), nn.InstanceNorm2d(16)]
    for layer in layers:
        near(type(layer).__name__, copy.deepcopy(layer).cuda()(x.cuda()), layer(x), 1e-4, 1e-5)


@check
def resnet18():
    torch.manual_seed(3)
    model = torchvision.models.resnet18(num_classes=10).cuda().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images, labels = torch.randn(32, 3, 128, 128).pin_memory(), torch.randint(0, 10, (32,)).pin_memory()
    losses = []
    for _ in range(10):
        loss = functional.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    equal("the loss falls", losses[-1] < losses[0] * 0.7, True)
    return losses


@check
def channels_last_benchmark():
    """cuDNN's search for the fastest algorithm, in the memory layout it likes best."""
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = False, True
    torch.manual_seed(4)
    model = torchvision.models.resnet18(num_classes=10).eval()
    x = torch.randn(8, 3, 96, 96)
    with torch.no_grad():
        ours = copy.deepcopy(model).cuda().to(memory_format=torch.channels_last)(
            x.cuda().to(memory_format=torch.channels_last))
        near("output", ours, model(x), 1e-2, 1e-2)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


class Gpt(nn.Module):
    """A small language model of PyTorch's own layers."""

    def __init__(self, vocabulary=500, width=128, heads=4, layers=2):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.blocks(self.tokens(tokens), mask=mask, is_causal=True))


def train_gpt(precision, scaled, steps=12):
    torch.manual_seed(5)
    model = Gpt().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", enabled=scaled)
    tokens = torch.randint(0, 500, (8, 65)).cuda()
    losses = []
    for _ in range(steps):
        with torch.autocast("cuda", dtype=precision, enabled=precision is not None):
            loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    equal("the loss falls", losses[-1] < losses[0] - 0.5, True)
    return losses


@check
def gpt():
    return train_gpt(None, False)


@check
def gpt_bf16():
    return train_gpt(torch.bfloat16, False)


@check
def gpt_fp16_scaled():
    return train_gpt(torch.float16, True)


@check
def scaler_skips_overflow():
    """A step with an infinite gradient is left out and the scale halves: the scaler reads its flag from the device."""
    weight = nn.Parameter(torch.ones(4, device="cuda"))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cuda", init_scale=1024.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    equal("weights", weight.tolist(), [1.0] * 4)
    equal("scale", scaler.get_scale(), 512.0)


@check
def optimizers():
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        for way in ({}, {"foreach": True}, {"foreach": False}):
            def step(device):
                torch.manual_seed(6)
                weight = nn.Parameter(torch.randn(50, 20).to(device))
                optimizer = kind([weight], lr=0.01, **way)
                for _ in range(3):
                    optimizer.zero_grad()
                    weight.pow(3).sum().backward()
                    optimizer.step()
                return weight

            near(f"{kind.__name__} {way}", step("cuda"), step("cpu"), 1e-4, 1e-5)
    torch.manual_seed(6)
    weight = nn.Parameter(torch.randn(50, 20).cuda())
    fused, before = torch.optim.AdamW([weight], lr=0.1, fused=True), weight.detach().clone()
    weight.pow(2).sum().backward()
    fused.step()
    equal("fused AdamW moves", bool((weight != before).all()), True)


@check
def checkpointed():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(7)
    layer, x = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.3), nn.GELU()).cuda(), torch.randn(8, 64).cuda()
    torch.manual_seed(8)
    layer(x).sum().backward()
    plain = layer[0].weight.grad.clone()
    layer.zero_grad()
    torch.manual_seed(8)
    checkpoint(layer, x.requires_grad_(), use_reentrant=False).sum().backward()
    near("gradient", layer[0].weight.grad, plain)


@check
def data_loader():
    """Worker processes, a thread that pins, copies that do not block."""
    everything = TensorDataset(torch.arange(4000.0).view(2000, 2), torch.arange(2000))
    loader = DataLoader(everything, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)
    for _ in range(2):
        total, labels = 0.0, 0
        for values, numbers in loader:
            equal("pinned", values.is_pinned(), True)
            total += values.cuda(non_blocking=True).double().sum()
            labels += numbers.cuda(non_blocking=True).sum()
        equal("sum", (total.item(), labels.item()), (4000 * 3999 / 2, 2000 * 1999 // 2))


@check
def saved_and_loaded():
    import io

    model, file = torchvision.models.resnet18(num_classes=10).cuda(), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = torchvision.models.resnet18(num_classes=10).cuda()
    other.load_state_dict(torch.load(file, map_location="cuda"))
    near("weights", other.conv1.weight, model.conv1.weight, 0, 0)


main()
