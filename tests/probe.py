"""What our program makes of a model's directory or file, for tests that compare with `transformers`."""
import os
import subprocess
import tempfile


def probe(program, model, *words, **given):
    """Tensors by name from tests/model_probe.cc; `given` are integer tensors by name, or None."""
    import torch
    from safetensors.torch import load_file, save_file
    with tempfile.TemporaryDirectory() as directory:
        source, target = os.path.join(directory, "in.safetensors"), os.path.join(directory, "out.safetensors")
        save_file({name: tensor.to(torch.int64).contiguous() for name, tensor in given.items() if tensor is not None}, source)
        done = subprocess.run([program, str(model), source, target, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return load_file(target)
