"""Random calls in random order: each succeeds or gives a clean error."""

import random

import numpy as np
import pytest

from nnconv.runtime import nnrt
from nnconv.runtime.nnrt import DataType, OperationType, Tensor, TensorType
from support.nnrt_calls import FUNCTIONS, Call, valid_call
from support.nnrt_runtime import (
    array,
    built,
    compiled,
    desc,
    described,
    device_id,
    device_tensor,
    executor,
    finished,
    prepared,
)

SEQUENCES = 150
CALLS = 40

NUMBERS = [-(1 << 63), -1, 0, 1, 2, 3, 24, 128, 200, (1 << 31), (1 << 32) - 1, 1 << 64]
NUMBERS += [10**5000, -(10**5000)]

ODD = [None, "text", b"", 1.5, float("nan"), [], [0], (None,), {}, object(), True, np.zeros((2, 0))]
ODD += [1j, "1.5", [10**5000], [1j], np.array(3), np.ones(2), iter([1]), int]

KINDS = {
    "model": "Model",
    "compilation": "Compilation",
    "memory": "Memory",
    "tensor_desc": "TensorDesc",
    "quant_param": "QuantParam",
}
"""The classes of parameters that are objects."""

METHODS = sorted(FUNCTIONS)


class Pool:
    """Objects that the calls of a sequence have made."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        api = self.random.choice([1, 2, 2])
        self.api = api
        made = executor(api=api)
        self.objects = {
            "Model": [nnrt.Model(api=api), built(api=api), finished(api=api)],
            "Compilation": [prepared(api=api), compiled(api=api)],
            "Executor": [made],
            "TensorDesc": [desc(), nnrt.TensorDesc()],
            "QuantParam": [nnrt.QuantParam(0.5, 3, 8), nnrt.QuantParam()],
            "DeviceTensor": [device_tensor()],
            "Memory": [made.allocate_input_memory(0, 24)],
        }

    def pick(self, kind):
        found = self.objects[kind]
        return self.random.choice(found) if found else None

    def odd_or(self, *usual):
        """Mostly one of these."""
        if not usual or self.random.random() < 0.2:
            return self.random.choice([*ODD, *NUMBERS])
        return self.random.choice(usual)

    def tensor(self):
        """A struct, mostly of the right parts."""
        parts = {
            "data_type": self.odd_or(*DataType),
            "dimensions": self.odd_or((2, 3), (), None),
            "quant_param": self.odd_or(made(self.quant_param), self.pick("QuantParam"), None),
            "type": self.odd_or(*TensorType),
        }
        struct = Tensor(**parts)
        if self.random.random() < 0.1:
            setattr(struct, self.random.choice(list(parts)), self.odd_or())
        return struct

    def quant_param(self):
        """A struct, mostly of the right parts."""
        parts = {
            "scale": self.odd_or(0.5, [0.5, 0.25], None),
            "zero_point": self.odd_or(3, [0, 0], None),
            "num_bits": self.odd_or(8, [8, 8], None),
        }
        struct = nnrt.QuantParam(**parts)
        if self.random.random() < 0.1:
            setattr(struct, self.random.choice(list(parts)), self.odd_or())
        return struct

    def argument(self, name):
        """A value for a parameter, mostly of the right kind."""
        if self.random.random() < 0.1:
            return self.random.choice([*ODD, *NUMBERS])
        if name == "quant_param" and self.random.random() < 0.5:
            return made(self.quant_param)
        if name in KINDS:
            return self.pick(KINDS[name])
        choices = {
            "tensor": [
                described(),
                described((-1, 3)),
                Tensor(DataType.INT8, (), None, TensorType.ADD_ACTIVATIONTYPE),
                Tensor(DataType.INT8, (2,), self.pick("QuantParam")),
                Tensor(99, (0,)),
                *(made(self.tensor) for _ in range(5)),
            ],
            "op": [OperationType.ADD, OperationType.ADD, *OperationType],
            "tensor_type": [0, *TensorType],
            "data_type": [*DataType],
            "data_buffer": [array(), np.int8(0), bytes(24), bytearray(24), array()[:, ::2]],
            "params": [[], [2]],
            "inputs": [[0, 1], [0], [1]],
            "outputs": [[3], [1]],
            "shape": [[2, 3], [-1, 3], [1]],
            "device_id": [device_id(), 0],
            "input_tensor": [[self.pick("DeviceTensor")] * 2],
            "output_tensor": [[self.pick("DeviceTensor")]],
            "cache_path": ["nowhere", ""],
            "scales": [[0.5], [0.5, 0.25]],
            "fd": [0, -1],
        }
        return self.random.choice(choices.get(name, [0, 0, 1, 2, 3, 24, *NUMBERS]))

    def step(self):
        method = self.random.choice(METHODS)
        owner = method.rpartition(".")[0]
        if self.random.random() < 0.05:
            call = valid_call(method, self.api if FUNCTIONS[method]["api"] == 1 else 2)
        else:
            call = Call(method)
            if call.is_bound:
                call.target = self.pick(owner)
            call.args = {name: self.argument(name) for name in call.required()}
        try:
            result = call()
        except nnrt.Error:
            return
        if type(result).__name__ in self.objects:
            self.objects[type(result).__name__].append(result)


def made(make):
    """What is made; None where that is refused."""
    try:
        return make()
    except nnrt.Error:
        return None


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_every_call_succeeds_or_gives_a_clean_error(seed):
    pool = Pool(seed)
    for _ in range(CALLS):
        pool.step()
