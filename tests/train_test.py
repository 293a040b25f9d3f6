"""train_test.py PROGRAM PROBE: `saccade train` beside the same training written in plain PyTorch; on several processes; killed and
taken up again; and as a person meets it on the command line. Where the `torch` package or mpirun is missing, those parts are skipped."""
import contextlib
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, PROBE = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
sys.argv[1:3] = []
try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
    torch.set_num_threads(1)
    MISSING = ""
except ImportError as error:
    MISSING = str(error)

# Threads that wait by spinning would take the processor from those that work.
os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
SECONDS = 240  # after which a process counts as hanging; the machine may be busy
STEPS = 10
CHECKPOINT_FILES = {"attention.attn", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "training.json",
                    "training.safetensors"}
RECIPE = """
name = "small"
attention = "prior"
[model]
width = 32
layers = 2
heads = 2
initial_deviation = 0.0
[data]
source = "text"
train = ["{text}"]
documents = "line"
tokenizer = "bytes"
length = 64
[train]
steps = 10
batch = 4
lr = 0.01
warmup = 3
validation_sequences = 5
[sample]
prompt = "the"
tokens = 8
"""


def write_text(path):
    """Lines much shorter than a row, so that each row has several documents, and a row's share of targets differs."""
    draw = random.Random(1)
    words = "the a house tree river went saw old near by".split()
    lines = [" ".join(draw.choice(words) for _ in range(draw.randint(1, 12))) for _ in range(400)]
    path.write_text("\n".join(lines) + "\n")


def run(*words, **options):
    return subprocess.run([*map(str, words)], **{"capture_output": True, "text": True, "timeout": SECONDS, "stdin": subprocess.DEVNULL,
                                                 **options})


def train(*words, **options):
    return run(PROGRAM, "train", *words, **options)


def metrics(folder):
    """The complete lines of a run; whoever writes them may be in the middle of one."""
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("\n")] if path.exists() else []


def losses(folder):
    return [line["loss"] for line in metrics(folder)]


def checkpoints(folder):
    return sorted((folder / "checkpoints").glob("step-*"))


def check_safetensors(path):
    """Reads the header and holds the size of the file to it."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    ends = [value["data_offsets"][1] for name, value in header.items() if name != "__metadata__"]
    if 8 + size + max(ends) != len(data):
        raise AssertionError(f"{path}: {len(data)} bytes; its header wants {8 + size + max(ends)}")


def start(*words, **options):
    return subprocess.Popen([*map(str, words)], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
                                                   "text": True, **options})


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="saccade-train-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        write_text(self.path / "lines.txt")
        self.recipe = self.path / "small.toml"
        self.recipe.write_text(RECIPE.format(text=self.path / "lines.txt"))

    def trained(self, name, *words, **options):
        """The folder of a training that must succeed."""
        folder = self.path / name
        done = train(self.recipe, "--out", folder, *words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def wait_for(self, process, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            if process.poll() is not None:
                self.fail(f"ended with {process.returncode}: {process.communicate()[1]}")
            self.assertLess(time.monotonic(), end, "it does not get on")
            time.sleep(0.002)

    def check_checkpoints(self, folder):
        for checkpoint in checkpoints(folder):
            missing = CHECKPOINT_FILES - {path.name for path in checkpoint.iterdir()} - {"attention.attn"}
            self.assertFalse(missing, checkpoint)
            for name in ("model.safetensors", "training.safetensors"):
                check_safetensors(checkpoint / name)
            for name in ("config.json", "training.json", "tokenizer.json"):
                json.loads((checkpoint / name).read_text())
        best = folder / "best"
        if best.exists():
            self.assertTrue((folder / "checkpoints" / best.read_text().strip()).is_dir(), best.read_text())


class Peer:
    """The model of a recipe and its training, as one would write them in PyTorch."""

    def __init__(self, folder, recipe):
        self.options = recipe
        self.config = json.loads((folder / "model/config.json").read_text())
        self.batches = load_file(folder / "batches.safetensors")
        self.weights = {name: value.clone().requires_grad_(True) for name, value in load_file(folder / "model/model.safetensors").items()}
        groups = {"matrices": [], "others": [], "formulas": []}
        for name, value in self.weights.items():
            kind = "formulas" if name.startswith("attention.") else "matrices" if value.dim() >= 2 and name != "positions" else "others"
            groups[kind].append(value)
        decay = recipe.get("train.weight_decay", 0.1)
        self.optimiser = torch.optim.AdamW(
            [{"params": groups["matrices"], "weight_decay": decay, "rate": 1.0},
             {"params": groups["others"], "weight_decay": 0.0, "rate": 1.0},
             {"params": groups["formulas"], "weight_decay": 0.0, "rate": recipe.get("train.formula_lr", 1.0)}],
            lr=1.0, betas=(0.9, 0.95), eps=1e-8)
        self.average = {name: value.detach().clone() for name, value in self.weights.items()}
        self.met_bound = False

    def norm(self, x, name):
        weight = self.weights[name + ".weight"]
        if self.config["norm"] == "layer":
            return F.layer_norm(x, weight.shape, weight, self.weights[name + ".bias"], 1e-5)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight

    def linear(self, x, name):
        return F.linear(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def turn(self, x):
        half = x.shape[-1] // 2
        frequencies = self.config["rotary_base"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
        cosine, sine = angles.cos().float(), angles.sin().float()
        first, second = x.split(half, -1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)

    def attend(self, x, layer, seen):
        batch, tokens, width = x.shape
        heads = self.config["heads"]
        query, key, value = (part.reshape(batch, tokens, heads, -1).transpose(1, 2)
                             for part in self.linear(x, f"block_{layer}.projection").chunk(3, -1))
        if "rotary_base" in self.config:
            query, key = self.turn(query), self.turn(key)
        mask = torch.zeros(seen.shape).masked_fill(~seen, -math.inf)
        if f"attention.{layer}.alpha" in self.weights:
            alpha, beta = (self.weights[f"attention.{layer}.{name}"].reshape(1, heads, 1, 1) for name in ("alpha", "beta"))
            distance = (torch.arange(tokens)[:, None] - torch.arange(tokens)).float()
            inside = seen & (distance > 0)  # at distance 0 the power is 0, and its slope is not a number
            mask = mask - torch.where(inside, (alpha * distance.clamp(min=1)).abs() ** beta, 0)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.linear(mixed.transpose(1, 2).reshape(batch, tokens, width), f"block_{layer}.output")

    def loss(self, batch, smoothing):
        ids, targets, documents = (self.batches.get(f"{kind}.{batch}") for kind in ("ids", "targets", "documents"))
        seen = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()[None, None]
        if documents is not None:
            seen = seen & (documents[:, None, :, None] == documents[:, None, None, :])
        x = self.weights["tokens"][ids]
        if "positions" in self.weights:
            x = x + self.weights["positions"][:ids.shape[1]]
        for layer in range(self.config["layers"]):
            x = x + self.attend(self.norm(x, f"block_{layer}.attention_norm"), layer, seen)
            wide = self.linear(self.norm(x, f"block_{layer}.mlp_norm"), f"block_{layer}.mlp.up")
            activate = {"silu": F.silu, "gelu": F.gelu}[self.config["activation"]]
            if self.config["gated"]:
                gate, wide = wide.chunk(2, -1)
                wide = activate(gate) * wide
            else:
                wide = activate(wide)
            x = x + self.linear(wide, f"block_{layer}.mlp.down")
        logits = F.linear(self.norm(x, "norm"), self.weights["tokens"] if self.config["tied"] else self.weights["output.weight"])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, label_smoothing=smoothing)

    def rate(self, step):
        highest, warmup, least = self.options.get("train.lr", 0.01), 3, 0.1
        if step < warmup:
            return highest * (step + 1) / warmup
        return highest * (least + (1 - least) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup))))

    def step(self, step):
        self.optimiser.zero_grad()
        loss = self.loss(step, self.options.get("train.label_smoothing", 0.0))
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.options.get("train.clip", 1.0))
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate(step) * group["rate"]
        self.optimiser.step()
        decay = min(self.options.get("train.average", 0.0), (1 + step) / (10 + step))
        with torch.no_grad():
            for name, value in self.weights.items():
                if name.endswith(".beta"):
                    self.met_bound |= bool(((value < 0.01) | (value > 4)).any())
                    value.clamp_(0.01, 4)
                self.average[name].lerp_(value, 1 - decay)
        return loss.item(), length.item()

    def validate(self):
        """Of the average, which without a decay is the model itself."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(self.average[name])
            return self.loss("validation", 0.0).item()


@unittest.skipIf(MISSING, f"needs the torch and safetensors packages: {MISSING}")
class Parity(Case):
    def compare(self, name, **changes):
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        words = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in changes.items()]
        with self.subTest(name):
            folder, start = self.trained(name, *words), self.path / (name + " start")
            probed = run(PROBE, self.recipe, start, *words)
            self.assertEqual(probed.returncode, 0, probed.stderr)
            peer = Peer(start, changes)
            lines = metrics(folder)
            self.assertEqual(len(lines), STEPS)
            for step, line in enumerate(lines):
                loss, length = peer.step(step)
                self.assertLess(abs(line["loss"] / loss - 1), 1e-5, f"{name}, loss of step {step + 1}")
                self.assertLess(abs(line["gradient_norm"] / length - 1), 1e-3, f"{name}, gradient of step {step + 1}")
                self.assertAlmostEqual(line["lr"], peer.rate(step), delta=1e-12)
            self.assertLess(lines[-1]["loss"], lines[0]["loss"] - 0.1, f"{name} learns too little to compare")
            written = load_file(checkpoints(folder)[-1] / "model.safetensors")
            self.assertEqual(written.keys(), peer.weights.keys())
            for key, value in peer.average.items():
                apart = (written[key] - value).abs()
                if key.endswith("projection.bias"):  # softmax takes no notice of the keys' bias, whose gradient is but rounding
                    apart[len(value) // 3:2 * len(value) // 3] = 0
                self.assertLess(apart.max().item() / value.abs().max().item(), 2e-3, f"{name}, {key}")
            if changes.get("train.average"):
                raw = load_file(checkpoints(folder)[-1] / "training.safetensors")
                self.assertLess((raw["weights.tokens"] - peer.weights["tokens"]).abs().max().item(), 1e-3)
                self.assertGreater((raw["weights.tokens"] - written["tokens"]).abs().max().item(), 1e-3)
            validated = peer.validate()
            self.assertLess(abs(lines[-1]["validation"]["loss"] / validated - 1), 1e-5, f"{name}, validation")
            return peer

    def test_causal_with_rotary_positions(self):
        self.compare("causal", attention="causal", train__separate_documents=False)
        self.compare("untied", attention="causal", model__tied=False, train__clip=0.1)

    def test_prior_with_a_rate_of_its_own(self):
        peer = self.compare("prior", attention="prior", train__formula_lr=3)
        self.assertGreater((peer.average["attention.0.beta"] - 1).abs().max(), 0.02)
        self.compare("prior without positions", attention="prior", model__positions="none", train__separate_documents=False)
        peer = self.compare("bounded", attention="prior", set__beta=0.03, train__formula_lr=5)
        self.assertTrue(peer.met_bound, "it was meant to be so fast that it meets a bound")

    def test_learned_positions_layer_norm_biases_and_gelu(self):
        self.compare("learned", attention="causal", model__positions="learned", model__norm="layer", model__bias=True,
                     model__activation="gelu", model__gated=False)

    def test_packed_documents(self):
        apart = self.compare("apart", attention="causal")
        self.assertIn("documents.0", apart.batches)
        self.assertTrue((apart.batches["targets.0"] < 0).any())

    def test_parts_of_a_batch_smoothing_and_averaging(self):
        self.compare("parts", attention="causal", train__micro_batch=1)
        self.compare("uneven parts", attention="prior", train__micro_batch=3)
        self.compare("smoothing", attention="causal", train__label_smoothing=0.1)
        self.compare("average", attention="prior", train__average=0.7)


def mpi_reason():
    """Why several processes cannot be tried, or nothing."""
    if not shutil.which("mpirun"):
        return "there is no mpirun"
    with tempfile.TemporaryDirectory() as directory:
        probe = mpirun(2, "train", "nothing.toml", cwd=directory)
    return "this build has no MPI" if "no MPI" in probe.stderr else ""


def mpirun(processes, *words, **options):
    return run("mpirun", "-n", processes, "--oversubscribe", PROGRAM, *words, **options)


class Team(Case):
    reason = None

    def setUp(self):
        super().setUp()
        if Team.reason is None:
            Team.reason = mpi_reason()
        if Team.reason:
            self.skipTest(Team.reason)

    def team(self, processes, name, *words):
        folder = self.path / name
        done = mpirun(processes, "train", self.recipe, "--out", folder, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def near(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        for step, (mine, other) in enumerate(zip(ours, theirs)):
            self.assertLess(abs(mine / other - 1), 1e-5, f"step {step + 1}")

    def check_weights(self, first, second):
        if MISSING:
            return
        one, other = (load_file(checkpoints(folder)[-1] / "model.safetensors") for folder in (first, second))
        for name, value in one.items():
            self.assertLess((value - other[name]).abs().max().item(), 1e-3, name)

    def test_several_processes_equal_one(self):
        for processes, words in ((2, ["train.average=0.7", "train.micro_batch=1"]), (4, ["train.batch=8", "train.validate_every=4"])):
            alone, together = self.trained(f"alone {processes}", *words), self.team(processes, f"together {processes}", *words)
            self.near(losses(together), losses(alone))
            self.check_weights(together, alone)
            for mine, other in zip(metrics(together), metrics(alone)):
                self.assertEqual(mine["tokens"], other["tokens"])
                self.assertEqual("validation" in mine, "validation" in other)
                if "validation" in mine:
                    self.assertEqual(mine["validation"]["tokens"], other["validation"]["tokens"])
                    self.assertLess(abs(mine["validation"]["loss"] / other["validation"]["loss"] - 1), 1e-5)

    def test_what_cannot_be_shared_or_opened_is_refused(self):
        done = mpirun(3, "train", self.recipe, "--out", self.path / "none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a batch of 4 sequences cannot be shared by 3 processes", done.stderr)
        self.assertFalse((self.path / "none").exists())
        # Only the process that leads looks at the folder; the others must not wait for it.
        there = self.trained("there", "train.steps=1")
        done = mpirun(2, "train", self.recipe, "--out", there)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a run is there", done.stderr)

    def test_alone_and_together_go_on_with_each_other(self):
        half = ["train.steps=5", "train.schedule=constant"]  # of a schedule that does not know its end
        rest = ["train.steps=10", "train.schedule=constant"]
        whole = losses(self.trained("constant", *rest))
        first = self.trained("first alone", *half)
        self.team(2, "first alone", *rest, "--resume")
        self.near(losses(first), whole)
        self.assertEqual(losses(first)[:5], whole[:5])
        second = self.team(2, "first together", *half)
        self.trained("first together", *rest, "--resume")
        self.near(losses(second), whole)

    def test_one_killed_process_ends_all(self):
        folder = self.path / "killed"
        words = ["train.schedule=constant", "train.checkpoint_every=3"]
        process = start("mpirun", "-n", 2, "--oversubscribe", PROGRAM, "train", self.recipe, "--out", folder, "--quiet",
                        "train.steps=1000000", *words, start_new_session=True)
        try:
            self.wait_for(process, lambda: checkpoints(folder))
            ranks = [int(word) for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()
                     for word in (task / "children").read_text().split()]
            self.assertEqual(len(ranks), 2)
            os.kill(ranks[1], signal.SIGKILL)
            process.communicate(timeout=SECONDS)
            self.assertNotEqual(process.returncode, 0)
            for rank in ranks:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    self.assertNotIn("saccade", pathlib.Path(f"/proc/{rank}/cmdline").read_text(), "it is still there")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        self.check_checkpoints(folder)
        last = int(checkpoints(folder)[-1].name.split("-")[1]) + 3
        self.team(2, "killed", "--resume", f"train.steps={last}", *words)
        self.near(losses(folder), losses(self.trained("whole", f"train.steps={last}", *words)))


class Killed(Case):
    def test_killed_at_random_moments_it_does_what_it_would_have_done(self):
        words = ["train.steps=120", "train.checkpoint_every=1", "train.validate_every=4", "train.keep=2", "sample.tokens=0"]
        whole, folder = self.trained("whole", *words), self.path / "killed"
        draw, kills, resumed = random.Random(7), 0, 0
        while kills < 12:
            before, resume = len(metrics(folder)), (folder / "recipe.toml").exists()
            process = start(PROGRAM, "train", self.recipe, *words, "--out", folder, *(["--resume"] if resume else []))
            resumed += resume
            if kills % 3 == 0:
                time.sleep(draw.uniform(0, 0.5))  # perhaps while it starts
            else:
                wanted = before + draw.randint(1, 8)
                self.wait_for(process, lambda: len(metrics(folder)) >= min(wanted, 119))
                time.sleep(draw.uniform(0, 0.01))
            process.kill()
            _, said = process.communicate()
            self.assertIn(process.returncode, (-signal.SIGKILL, 0), said)
            kills += 1
            self.check_checkpoints(folder)
            if kills == 6:
                self.assertEqual(run(PROGRAM, "eval", folder, "--data", self.path / "lines.txt", "--max-tokens", 200).returncode, 0)
        self.assertGreater(resumed, 6)
        self.trained("killed", *words, "--resume")
        kept = [[{key: value for key, value in line.items() if key != "seconds"} for line in metrics(run)] for run in (folder, whole)]
        self.assertEqual(kept[0], kept[1])
        self.assertEqual([path.name for path in checkpoints(folder)], [path.name for path in checkpoints(whole)])
        self.assertEqual((folder / "best").read_text(), (whole / "best").read_text())
        for name in ("model.safetensors", "training.safetensors"):
            self.assertEqual((checkpoints(folder)[-1] / name).read_bytes(), (checkpoints(whole)[-1] / name).read_bytes())
        self.assertEqual([path.name for path in (folder / "checkpoints").iterdir() if path.name.startswith(".")], [])

    def test_killed_before_the_first_checkpoint_it_starts_again(self):
        words = ["train.steps=12", "train.checkpoint_every=0"]
        whole, folder = self.trained("whole", *words), self.path / "killed"
        process = start(PROGRAM, "train", self.recipe, "train.steps=1000000", "train.checkpoint_every=0", "--out", folder)
        self.wait_for(process, lambda: len(metrics(folder)) > 3)
        process.kill()
        process.communicate()
        self.trained("killed", *words, "--resume")
        self.assertEqual([line["step"] for line in metrics(folder)], list(range(1, 13)))
        self.assertEqual(losses(folder), losses(whole))

    def test_a_best_checkpoint_that_nobody_has_named_yet(self):
        words = ["train.checkpoint_every=2", "train.validate_every=2", "train.keep=1"]
        folder = self.trained("run", *words, "train.steps=4", "train.schedule=constant")
        self.assertEqual((folder / "best").read_text().strip(), "step-00000004")
        (folder / "best").unlink()  # as if it had been killed after the checkpoint
        # Too fast to become better.
        self.trained("run", *words, "--resume", "train.steps=8", "train.schedule=constant", "train.lr=3")
        self.assertEqual((folder / "best").read_text().strip(), "step-00000004")
        self.check_checkpoints(folder)


class CommandLine(Case):
    def refused(self, text, *words, code=2, **options):
        done = train(*words, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr, text)
        self.assertNotIn("terminate called", done.stderr)
        self.assertNotIn("internal error", done.stderr)
        return done

    def test_interrupted_it_saves_and_says_how_to_go_on(self):
        for name in (signal.SIGINT, signal.SIGTERM):
            folder = self.path / f"run {name}"
            process = start(PROGRAM, "train", self.recipe, "--out", folder, "train.steps=1000000", "train.checkpoint_every=0",
                            "train.schedule=constant")
            self.wait_for(process, lambda: len(metrics(folder)) > 3)
            process.send_signal(name)
            _, said = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 130, said)
            lines = metrics(folder)
            self.assertEqual(checkpoints(folder)[-1].name, f"step-{len(lines):08}")
            words = re.search(r"saved; to go on: saccade (.*)", said).group(1)
            self.assertIn("--resume", words)
            done = train(folder, "--resume", f"train.steps={len(lines) + 2}", "train.schedule=constant")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([line["step"] for line in metrics(folder)], list(range(1, len(lines) + 3)))
            self.assertIn(f"goes on after step {len(lines)}", done.stderr)

    def test_the_command_it_gives_can_be_pasted(self):
        folder = self.path / "it's here"
        process = start(PROGRAM, "train", self.recipe, "--out", folder, "train.steps=1000000", "train.schedule=constant")
        self.wait_for(process, lambda: len(metrics(folder)) > 3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
        words = re.search(r"saved; to go on: saccade (.*)", said).group(1)
        done = run("sh", "-c", f"'{PROGRAM}' {words} train.steps={len(metrics(folder)) + 1}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_folders(self):
        self.refused("there is no run to go on with", self.recipe, "--out", self.path / "nothing", "--resume")
        self.assertFalse((self.path / "nothing").exists())
        folder = self.trained("run", "train.steps=2")
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.refused("a run is there; --resume goes on with it, --overwrite starts again", self.recipe, "--out", folder)
        self.refused("model.width = 32, not 64", self.recipe, "--out", folder, "--resume", "model.width=64")
        # A mistake must not cost the run that is to be replaced, nor leave one where there was none.
        mistakes = ["data.train=[\"missing.txt\"]"]
        self.refused("missing.txt", self.recipe, "--out", folder, "--overwrite", *mistakes)
        self.assertEqual({path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}, before)
        self.refused("missing.txt", self.recipe, "--out", self.path / "mistake", *mistakes)
        self.assertFalse((self.path / "mistake").exists())
        self.trained("run", "--overwrite", "train.steps=3")
        self.assertEqual(len(metrics(folder)), 3)
        self.refused("lines.txt", self.recipe, "--out", self.path / "lines.txt/run")
        self.refused("/proc/saccade", self.recipe, "--out", "/proc/saccade")
        # Without --out names are numbered.
        for name in ("small-prior", "small-prior-2"):
            done = train(self.recipe, "train.steps=1", cwd=self.path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((self.path / "runs" / name / "result.json").exists())

    def test_mistakes_in_a_recipe(self):
        self.refused("error: train.stesp=5: there is no key 'train.stesp'; did you mean 'steps'", self.recipe, "train.stesp=5")
        self.refused("train.schedule is 'cosin'; expected .*did you mean 'cosine'", self.recipe, "train.schedule=cosin")
        self.refused("which recipe", )
        self.refused("none.toml", "none.toml")
        (self.path / "wrong.toml").write_text("[train]\nstpes = 3\n")
        self.refused(r"wrong.toml:2.*did you mean 'steps'", self.path / "wrong.toml")

    def test_a_file_that_may_not_grow(self):
        folder = self.trained("run", "train.steps=2", "train.checkpoint_every=1", "train.schedule=constant")
        before = {path: path.read_bytes() for path in (folder / "checkpoints").rglob("*") if path.is_file()}
        words = [folder, "--resume", "train.steps=4", "train.schedule=constant"]

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then writing fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        self.refused(r"step-|checkpoints|safetensors", *words, preexec_fn=limit, restore_signals=False)
        self.assertEqual({path: path.read_bytes() for path in (folder / "checkpoints").rglob("*") if path.is_file()}, before)
        self.assertEqual(train(*words).returncode, 0)
        whole = self.trained("whole", "train.steps=4", "train.checkpoint_every=1", "train.schedule=constant")
        self.assertEqual(losses(folder), losses(whole))

    def test_a_full_disk(self):
        disk, copy = self.path / "disk", self.path / "copy"
        disk.mkdir()
        # The disk is only there for its shell, which brings home what is left on it.
        script = f"""mount -t tmpfs -o size=2m tmpfs '{disk}' || exit 99
            '{PROGRAM}' train '{self.recipe}' --out '{disk}/run' train.steps=50 train.checkpoint_every=1 train.keep=50 --quiet
            code=$?; cp -a '{disk}/run' '{copy}'; exit $code"""
        done = run("unshare", "-m", "sh", "-c", script) if shutil.which("unshare") else None
        if done is None or (done.returncode in (1, 99) and not copy.exists()):
            self.skipTest("no small disk can be mounted here")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "No space left on device|disk is full")
        self.assertGreater(len(checkpoints(copy)), 1)
        self.check_checkpoints(copy)
        words = ["train.steps=50", "train.checkpoint_every=1", "train.keep=50"]
        self.trained("copy", *words, "--resume")
        self.assertEqual(losses(copy), losses(self.trained("whole", *words)))

    def test_what_it_would_take(self):
        missing = f'data.train=["{self.path}/missing.txt"]'
        done = train(self.recipe, "--dry-run", missing)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("parameters", "FLOP", "MiB", "tokens/s", "time"):
            self.assertIn(word, done.stdout)
        plan = json.loads(train(self.recipe, "--dry-run", "--json", missing).stdout)
        folder = self.trained("run", "train.steps=1")
        self.assertEqual(plan["parameters"], json.loads((folder / "result.json").read_text())["parameters"])
        self.assertEqual(plan["tokens"], 10 * 4 * 64)
        self.assertGreater(plan["seconds"], 0)
        self.assertEqual(plan["memory"]["all"], sum(value for name, value in plan["memory"].items() if name != "all"))

    def test_results_for_programs_and_for_people(self):
        done = train(self.recipe, "--json", "--out", self.path / "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["end"], result["step"], result["best_step"]), ("finished", 10, 10))
        self.assertEqual(result, json.loads((self.path / "json/result.json").read_text()))
        done = train(self.recipe, "--out", self.path / "people", errors="replace")
        self.assertRegex(done.stdout, r"\nsample\n  the")
        self.assertRegex(done.stderr, r"step 10/10: loss [\d.]+, validation loss")

    def test_numbers_that_are_not_finite(self):
        done = self.refused(r"training stopped at step \d+: the .* first seen in the parameter '[\w.]+'", self.recipe, "--out",
                            self.path / "run", "train.lr=1e38", "train.clip=0", "train.warmup=0", code=1)
        self.assertIn("not finite", done.stdout)

    def test_any_number_of_threads_gives_the_same_losses(self):
        one = losses(self.trained("one", "--threads", "1"))
        self.assertEqual(len(one), 10)
        for count in ("2", "3"):
            self.assertEqual(losses(self.trained("threads" + count, "--threads", count)), one)

    def test_half_the_precision(self):
        whole, half = self.trained("whole"), self.trained("half", "train.dtype=bfloat16")
        self.assertNotEqual(losses(whole), losses(half))
        for ours, theirs in zip(losses(whole), losses(half)):
            self.assertAlmostEqual(ours, theirs, delta=0.05)

    def test_mechanisms_are_compared(self):
        out = self.path / "comparison"
        words = [PROGRAM, "compare", self.recipe, "train.steps=4", "--attention", "causal,gpam", "--sweep", "train.lr=0.01,0.001", "--runs", "2",
                 "--lengths", "1,2", "--out", out]
        done = run(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("causal train.lr=0.01 inner=", done.stdout)  # the control
        found = json.loads((out / "comparison.json").read_text())
        self.assertEqual([len(variant["runs"]) for variant in found["variants"]], [2] * 5)
        self.assertIsNone(found["variants"][0]["p_value"])
        for name in ("losses.svg", "results.svg", "lengths.svg"):
            self.assertIn("</svg>", (out / name).read_text())
        again = run(*words, "--json")  # nothing is left to train
        self.assertEqual(json.loads(again.stdout), found)
        wrong = run(PROGRAM, "compare", self.recipe, "--attention", "causal,gapm", "--out", self.path / "wrong")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("did you mean 'gpam'?", wrong.stderr)
        self.assertEqual(run(PROGRAM, "compare", self.recipe, "--sweep", "lp").returncode, 2)

    def test_other_commands_read_a_run(self):
        folder = self.trained("run", "train.steps=30")
        done = run(PROGRAM, "generate", folder, "--prompt", "the", "-n", 5, errors="replace")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(PROGRAM, "eval", folder, "--data", self.path / "lines.txt", "--max-tokens", 2000, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        json.loads(done.stdout)
        done = run(PROGRAM, "diagnose", folder, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((folder / "diagnosis/diagnosis.json").exists())
        looked = self.trained("looked", "train.diagnose_every=5")
        self.assertEqual([json.loads(line)["step"] for line in (looked / "diagnostics.jsonl").read_text().splitlines()], [5, 10])


unittest.main(verbosity=2)
