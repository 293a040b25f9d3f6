"""choice_test.py PROGRAM: holds the choice of tokens to `transformers`: the same probabilities, the same beams."""

import json
import os
import random
import subprocess
import sys
import unittest

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
try:
    import torch
    from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
    from transformers.generation import logits_process
    from transformers.modeling_outputs import CausalLMOutput
except ImportError:
    print("skipped: the Python package `transformers` is not installed")
    sys.exit(77)

PROGRAM = sys.argv.pop(1)
SEED = int(os.environ.get("SACCADE_SEED", "1"))


def ask(requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    result = subprocess.run([PROGRAM], input=lines, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


class Config(PretrainedConfig):
    model_type = "table"


class Table(PreTrainedModel, GenerationMixin):
    """A model whose logits depend on the place and the last token alone, as those of choose_tokens do."""

    config_class = Config
    main_input_name = "input_ids"

    def __init__(self, table):
        super().__init__(Config(vocab_size=table.shape[-1], num_hidden_layers=1))
        self.table = table
        self.nothing = torch.nn.Parameter(torch.zeros(1))  # generate() asks a parameter for the device

    def forward(self, input_ids, **_):
        return CausalLMOutput(logits=self.table[input_ids.shape[1] - 1][input_ids[:, -1]][:, None, :])

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids}


class Choice(unittest.TestCase):
    def setUp(self):
        print(f"seed {SEED}", file=sys.stderr)
        self.random = random.Random(SEED)
        torch.manual_seed(SEED)

    def test_probabilities_after_all_filters(self):
        choose = self.random.choice
        requests, expected = [], []
        for _ in range(300):
            size = choose([5, 20, 100])
            request = {"temperature": choose([0.5, 1.0, 1.7]), "top_k": choose([0, 1, 3, 10]), "top_p": choose([1, 0.9, 0.5, 0.1]),
                       "min_p": choose([0, 0.05, 0.3]), "repetition_penalty": choose([1.0, 1.3, 0.8]),
                       "history": [self.random.randrange(size) for _ in range(5)]}
            logits = 2 * torch.randn(1, size)
            request["logits"] = logits[0].tolist()
            steps = [logits_process.RepetitionPenaltyLogitsProcessor(request["repetition_penalty"]),
                     logits_process.TemperatureLogitsWarper(request["temperature"])]
            steps += [logits_process.TopKLogitsWarper(request["top_k"])] if request["top_k"] else []
            steps += [logits_process.TopPLogitsWarper(request["top_p"]), logits_process.MinPLogitsWarper(request["min_p"])]
            for step in steps:
                logits = step(torch.tensor([request["history"]]), logits)
            expected.append({str(token): p for token, p in enumerate(logits[0].softmax(-1).tolist()) if p > 0})
            requests.append(request)
        for request, theirs, ours in zip(requests, expected, ask(requests), strict=True):
            self.assertEqual(theirs.keys(), ours.keys(), request)
            for token, p in theirs.items():
                self.assertAlmostEqual(p, ours[token], 5, request)

    def test_beams(self):
        choose = self.random.choice
        requests, expected = [], []
        for _ in range(150):
            size, length, beams = choose([6, 12, 30]), choose([3, 6, 10]), choose([1, 2, 3, 4])
            ends, prompts = choose([1, 2]), choose([1, 3])
            table = 1.5 * torch.randn(length, size, size, dtype=torch.float64)
            request = {"vocabulary": size, "max_new_tokens": length, "beams": beams, "n_best": self.random.randint(1, beams),
                       "length_penalty": choose([0.0, 0.6, 1.0, 2.0, -0.5]), "early_stopping": choose([False, True]),
                       "end_ids": list(range(ends)), "prompts": [self.random.randrange(ends, size) for _ in range(prompts)]}
            ids = torch.tensor(request["prompts"])[:, None]
            found = Table(table).generate(
                ids, attention_mask=torch.ones_like(ids), num_beams=beams, num_return_sequences=request["n_best"], max_new_tokens=length,
                length_penalty=request["length_penalty"], early_stopping=request["early_stopping"], eos_token_id=request["end_ids"],
                pad_token_id=0, do_sample=False, use_cache=False, return_dict_in_generate=True, output_scores=True)
            scores = found.sequences_scores.tolist() if beams > 1 else [None] * prompts
            expected.append([(self.until_end(text[1:], ends), score) for text, score in zip(found.sequences.tolist(), scores, strict=True)])
            requests.append({**request, "table": table.flatten().tolist()})
        for request, theirs, ours in zip(requests, expected, ask(requests), strict=True):
            settings = {key: value for key, value in request.items() if key != "table"}
            flat = [text for texts in ours for text in texts]
            self.assertEqual([ids for ids, _ in theirs], [text["ids"] for text in flat], settings)
            for (_, score), text in zip(theirs, flat, strict=True):
                if score is not None:
                    self.assertLess(abs(score - text["score"]), 1e-5 * max(1, abs(score)), settings)

    @staticmethod
    def until_end(ids, ends):
        """Without the padding that `transformers` puts behind the end."""
        for place, token in enumerate(ids):
            if token < ends:
                return ids[: place + 1]
        return ids


if __name__ == "__main__":
    unittest.main()
