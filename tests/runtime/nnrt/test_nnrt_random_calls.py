"""Random calls in random order: each succeeds or gives a clean error."""

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
from support.random_calls import NUMBERS, CallPool

SEQUENCES = 150
CALLS = 40

KINDS = {
    "model": "Model",
    "compilation": "Compilation",
    "memory": "Memory",
    "tensor_desc": "TensorDesc",
    "quant_param": "QuantParam",
}
"""The classes of parameters that are objects."""

METHODS = sorted(FUNCTIONS)


class Pool(CallPool):
    """Objects of NNRt that calls have made."""

    error = nnrt.Error

    def __init__(self, seed):
        super().__init__(seed)
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

    def tensor(self):
        """A struct, mostly of the right parts."""
        parts = {
            "data_type": self.odd_or(*DataType),
            "dimensions": self.odd_or((2, 3), (), None),
            "quant_param": self.odd_or(self.quant_param(), self.pick("QuantParam"), None),
            "type": self.odd_or(*TensorType),
        }
        return self.struct(Tensor, parts)

    def quant_param(self):
        """A struct, mostly of the right parts."""
        parts = {
            "scale": self.odd_or(0.5, [0.5, 0.25], None),
            "zero_point": self.odd_or(3, [0, 0], None),
            "num_bits": self.odd_or(8, [8, 8], None),
        }
        return self.struct(nnrt.QuantParam, parts)

    def argument(self, name):
        """A value for a parameter, mostly of the right kind."""
        if self.random.random() < 0.1:
            return self.odd()
        if name == "quant_param" and self.random.random() < 0.5:
            return self.quant_param()
        if name in KINDS:
            return self.pick(KINDS[name])
        choices = {
            "tensor": [
                described(),
                described((-1, 3)),
                Tensor(DataType.INT8, (), None, TensorType.ADD_ACTIVATIONTYPE),
                Tensor(DataType.INT8, (2,), self.pick("QuantParam")),
                Tensor(99, (0,)),
                *(self.tensor() for _ in range(5)),
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
        self.run(call)


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_every_call_succeeds_or_gives_a_clean_error(seed):
    pool = Pool(seed)
    for _ in range(CALLS):
        pool.step()
