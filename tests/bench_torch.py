#!/usr/bin/python3
"""bench_torch.py [THREADS]: PyTorch on the same step, plain and channels_last; 77: no torch."""
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)

BATCH, WARM, STEPS = 64, 5, 100
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


def load():
    with open(os.path.join(DATA, "mnist320/train-images-idx3-ubyte"), "rb") as file:
        pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8)
    with open(os.path.join(DATA, "mnist320/train-labels-idx1-ubyte"), "rb") as file:
        labels = torch.frombuffer(bytearray(file.read()[8:]), dtype=torch.uint8)
    images = (pixels.float().reshape(-1, 1, 28, 28) / 255 - 0.1307) / 0.3081
    return images, labels.long()


def model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3, padding=1), torch.nn.LeakyReLU(0.01), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.LeakyReLU(0.01), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(3136, 128), torch.nn.LeakyReLU(0.01),
        torch.nn.Linear(128, 10))


def time_steps(layout):
    """Seconds of every step, sorted."""
    torch.manual_seed(1)
    images, labels = load()
    net = model().to(memory_format=layout)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    spent = []
    for step in range(WARM + STEPS):
        at = step % 5 * BATCH
        begun = time.perf_counter()
        batch = images[at:at + BATCH].contiguous(memory_format=layout)
        optimizer.zero_grad()
        F.cross_entropy(net(batch), labels[at:at + BATCH]).backward()
        optimizer.step()
        spent.append(time.perf_counter() - begun)
    return sorted(spent[WARM:])


threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
torch.set_num_threads(threads)
print(f"PyTorch {torch.__version__}, {threads} thread(s), batch {BATCH}, {STEPS} steps")
for name, layout in (("plain", torch.contiguous_format), ("channels_last", torch.channels_last)):
    spent = time_steps(layout)
    median = spent[STEPS // 2]
    print(f"{name:<18} {median * 1e3:8.3f} ms {BATCH / median:8.0f} images/s"
          f"   best {spent[0] * 1e3:8.3f} ms {BATCH / spent[0]:8.0f} images/s")
