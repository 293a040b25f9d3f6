"""weights_test.py DUMP: files of weights held to the packages that define them, in both directions. What `safetensors` and `gguf` write is
read by DUMP (tests/weights_dump.cc) and compared to the bit; what it writes is read by them. Ends with code 77, which ctest shows as
skipped, when a package is missing."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

DUMP = str(pathlib.Path(sys.argv.pop(1)).resolve())
SKIPPED = 77

try:
    import gguf
    import numpy as np
    import safetensors
    import safetensors.numpy
except ImportError as error:
    print(f"skipped: this Python lacks a package ({error})")
    sys.exit(SKIPPED)

Type = gguf.GGMLQuantizationType
SEED = 20240607

# Where the half-precision scales are in a block: random bytes there could be NaN, whose bits no two programs agree on.
SCALES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}
PACKED = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0]  # that the package can quantise to


def dump(*arguments):
    return subprocess.run([DUMP, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def random_blocks(kind, rows, blocks, random):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for offset in SCALES[kind]:
        halves = (random.standard_normal((rows, blocks)) * 10.0 ** random.integers(-8, 4, (rows, blocks))).astype(np.float16)
        data[..., offset:offset + 2] = halves[..., np.newaxis].view(np.uint8)
    return data.reshape(rows, blocks * size)


class Weights(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.random = np.random.default_rng(SEED)

    def floats(self, path):
        """All elements that DUMP reads, as their bits, by the names of their tensors."""
        output = self.directory / "floats.bin"
        dump("floats", path, output)
        bits, position, result = np.fromfile(output, dtype=np.uint32), 0, {}
        for tensor in map(json.loads, dump("list", path).splitlines()):
            if tensor["type"][0] in "IU" or tensor["type"] == "BOOL":
                continue
            size = int(np.prod(tensor["shape"], dtype=np.int64))
            result[tensor["name"]] = bits[position:position + size].reshape(tensor["shape"])
            position += size
        self.assertEqual(position, bits.size)
        return result

    def assert_bits(self, ours, theirs, name):
        theirs = np.asarray(theirs, dtype=np.float32, order="C")
        self.assertEqual(ours.shape, theirs.shape, name)
        np.testing.assert_array_equal(ours, theirs.view(np.uint32), err_msg=name)

    def write_gguf(self, path, tensors):
        writer = gguf.GGUFWriter(path, "test")
        for name, (data, kind) in tensors.items():
            writer.add_tensor(name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def test_quantised_blocks_are_read_to_the_bit(self):
        tensors = {kind.name: (random_blocks(kind, 7, 5, self.random), kind) for kind in SCALES}
        self.write_gguf(self.directory / "m.gguf", tensors)
        ours = self.floats(self.directory / "m.gguf")
        self.assertEqual(set(ours), set(tensors))
        for name, (data, kind) in tensors.items():
            self.assert_bits(ours[name], gguf.quants.dequantize(data, kind), name)

    def test_quantised_weights_are_read_to_the_bit(self):
        values = self.random.standard_normal((6, 96)).astype(np.float32)
        values[0, :32] = 0
        tensors = {kind.name: (gguf.quants.quantize(values, kind), kind) for kind in PACKED}
        self.write_gguf(self.directory / "m.gguf", tensors)
        ours = self.floats(self.directory / "m.gguf")
        for name, (data, kind) in tensors.items():
            self.assert_bits(ours[name], gguf.quants.dequantize(data, kind), name)

    def test_every_half_is_read_to_the_bit(self):
        halves = np.arange(65536, dtype=np.uint16).view(np.float16)
        halves = halves[~np.isnan(halves)]
        safetensors.numpy.save_file({"h": halves}, self.directory / "h.safetensors")
        self.assert_bits(self.floats(self.directory / "h.safetensors")["h"], halves.astype(np.float32), "h")

    def test_metadata_is_read(self):
        writer = gguf.GGUFWriter(self.directory / "m.gguf", "llama")
        expected = {"GGUF.version": 3, "general.architecture": "llama"}
        for number, (kind, value) in enumerate([
                ("uint8", 200), ("int8", -100), ("uint16", 60000), ("int16", -30000), ("uint32", 4000000000), ("int32", -2000000000),
                ("uint64", 2**63 + 5), ("int64", -2**62), ("float32", 0.5), ("float64", 0.1), ("bool", True), ("string", "ä\n")]):
            getattr(writer, f"add_{kind}")(f"k{number}", value)
            expected[f"k{number}"] = value
        for number, value in enumerate([[1, -2, 3], [0.5, 1.5], ["a", "", "c"], [True, False], [[1, 2], [3]]]):
            writer.add_array(f"a{number}", value)
            expected[f"a{number}"] = value
        del expected["GGUF.version"]
        writer.add_tensor("t", np.zeros(3, dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self.assertEqual(json.loads(dump("metadata", self.directory / "m.gguf")), expected)

    def test_safetensors_are_read(self):
        tensors = {
            "f64": self.random.standard_normal((3, 2)), "f32": self.random.standard_normal((2, 3, 4)).astype(np.float32),
            "f16": self.random.standard_normal(7).astype(np.float16), "i64": np.arange(5), "u8": np.arange(3, dtype=np.uint8),
            "bool": np.array([True, False]), "scalar": np.array(2.5, dtype=np.float32), "empty": np.zeros((0, 3), dtype=np.float32),
        }
        safetensors.numpy.save_file(tensors, self.directory / "m.safetensors", {"format": "pt"})
        listed = {line["name"]: line for line in map(json.loads, dump("list", self.directory / "m.safetensors").splitlines())}
        self.assertEqual({name: line["shape"] for name, line in listed.items()}, {name: list(a.shape) for name, a in tensors.items()})
        ours = self.floats(self.directory / "m.safetensors")
        self.assertEqual(set(ours), {"f64", "f32", "f16", "scalar", "empty"})
        for name, bits in ours.items():
            self.assert_bits(bits, tensors[name].astype(np.float32), name)

    def test_safetensors_that_we_write_are_those_of_the_package(self):
        tensors = {f"layer.{i}.weight": self.random.standard_normal((i, 3)).astype(np.float32) for i in range(12)}
        source, target = self.directory / "a.safetensors", self.directory / "b.safetensors"
        safetensors.numpy.save_file(tensors, source, {"format": "pt"})
        dump("copy", source, target)
        self.assertEqual(target.read_bytes(), source.read_bytes())

        mixed = {"b": np.arange(3, dtype=np.uint8), "w": tensors["layer.3.weight"], "h": tensors["layer.5.weight"].astype(np.float16),
                 "n": np.arange(4), "é \"": np.array(True)}
        safetensors.numpy.save_file(mixed, source)
        dump("copy", source, target)
        read = safetensors.numpy.load_file(target)
        self.assertEqual(set(read), set(mixed))
        for name, array in mixed.items():
            np.testing.assert_array_equal(read[name], array)
            self.assertEqual(read[name].dtype, array.dtype)
        with safetensors.safe_open(target, "np") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})

    def test_shards_that_we_write_are_read(self):
        tensors = {f"t{i}": self.random.standard_normal((10, 10)).astype(np.float32) for i in range(7)}
        source, target = self.directory / "a.safetensors", self.directory / "shards"
        safetensors.numpy.save_file(tensors, source)
        target.mkdir()
        dump("shards", source, target)  # of 1000 bytes: two tensors in each
        index = json.loads((target / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], 2800)
        self.assertEqual(len(set(index["weight_map"].values())), 4)
        for name, array in tensors.items():
            read = safetensors.numpy.load_file(target / index["weight_map"][name])
            np.testing.assert_array_equal(read[name], array)
        self.assertEqual(set(self.floats(target)), set(tensors))

    def test_gguf_that_we_write_is_read(self):
        values = (self.random.standard_normal((6, 96)) * 10.0 ** self.random.integers(-6, 3, (6, 96))).astype(np.float32)
        values[0, :32] = 0
        source = self.directory / "a.safetensors"
        safetensors.numpy.save_file({"w": values, "v": values[2]}, source)
        for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0):
            target = self.directory / f"{kind.name}.gguf"
            dump(f"gguf-{kind.name}", source, target)
            reader = gguf.GGUFReader(target)
            read = {tensor.name: tensor for tensor in reader.tensors}
            self.assertEqual(read["w"].tensor_type, kind)
            self.assertEqual(list(read["w"].shape), [96, 6])
            expected = gguf.quants.quantize(values, kind)
            np.testing.assert_array_equal(np.asarray(read["w"].data).view(np.uint8), expected.view(np.uint8), err_msg=kind.name)
            self.assertEqual(reader.fields["general.architecture"].contents(), "test")
            self.assertEqual(reader.fields["test.list"].contents(), ["a", "", "ä"])
            self.assertEqual(reader.fields["test.real"].contents(), 0.5)

    def test_gguf_survives_a_copy(self):
        writer = gguf.GGUFWriter(self.directory / "a.gguf", "llama")
        writer.add_array("tokenizer.ggml.tokens", ["<s>", "ä", ""])
        writer.add_array("scores", [0.5, -1.0])
        writer.add_custom_alignment(64)
        writer.add_tensor("w", self.random.standard_normal((3, 5)).astype(np.float32))
        writer.add_tensor("q", random_blocks(Type.Q6_K, 2, 1, self.random), raw_dtype=Type.Q6_K)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        dump("copy", self.directory / "a.gguf", self.directory / "b.gguf")
        self.assertEqual((self.directory / "b.gguf").read_bytes(), (self.directory / "a.gguf").read_bytes())


if __name__ == "__main__":
    sys.exit(unittest.main())
