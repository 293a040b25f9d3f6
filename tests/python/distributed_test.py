"""Two processes under torchrun: the gradients of a formula's parameters are averaged like any others, so that two halves of a batch train
a model as one batch does. Run without arguments it starts itself under torchrun."""

import os
import subprocess
import sys
import unittest

import support

support.require()

import torch

STEPS = 3


def model_and_data():
    import saccade

    torch.manual_seed(1)
    model = saccade.nn.MultiheadAttention(12, 3, batch_first=True, formula="gpam").double()
    return model, torch.randn(4, 6, 12, dtype=torch.float64)


def train(model, data):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        output, _ = model(data, data, data, need_weights=False)
        (output - data).square().mean().backward()
        optimizer.step()


def worker():
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model, data = model_and_data()
    train(torch.nn.parallel.DistributedDataParallel(model), data[2 * rank:2 * rank + 2])
    alone, data = model_and_data()
    train(alone, data)
    for (name, found), (_, expected) in zip(model.named_parameters(), alone.named_parameters()):
        torch.testing.assert_close(found, expected, msg=lambda text: f"{name}: {text}")
    moved = (alone.attention.lp - 0.1).abs().max()
    assert moved > 1e-6, "the formula's parameters did not learn"
    torch.distributed.destroy_process_group()


class TwoProcesses(unittest.TestCase):
    def test_train_as_one(self):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__, "worker"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(found.returncode, 0, found.stderr)


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["worker"] else support.main()
