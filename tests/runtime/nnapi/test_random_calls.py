"""Random calls in random order: each succeeds or gives a clean error."""

import numpy as np
import pytest
from nnconv.schemas import read_schema

from nnconv.runtime import nnapi
from nnconv.runtime.nnapi import OperandCode, OperandType, OperationCode
from support.nnapi_calls import FUNCTIONS, TOKEN, VALID, Call, array, memory
from support.nnapi_runtime import FLOAT, REFERENCE, built, compiled, device, finished
from support.random_calls import NUMBERS, CallPool

SEQUENCES = 150
CALLS = 40


class Pool(CallPool):
    """Objects of NNAPI that calls have made."""

    error = nnapi.Error

    def __init__(self, seed):
        super().__init__(seed)
        self.objects = {
            "Model": [nnapi.Model(), built(), finished()],
            "Compilation": [nnapi.Compilation.create_for_devices(finished(), [device()])],
            "Execution": [nnapi.Execution(compiled())],
            "Burst": [nnapi.Burst(compiled())],
            "Memory": [memory()],
            "MemoryDesc": [nnapi.MemoryDesc()],
            "Device": [device(REFERENCE)],
            "Event": [],
        }

    def operand_type(self):
        """A struct, mostly of the right parts."""
        parts = {
            "type": self.odd_or(FLOAT, *OperandCode),
            "dimensions": self.odd_or((2, 3), (), None),
            "scale": self.odd_or(0.0, 0.5),
            "zero_point": self.odd_or(0, 3),
        }
        return self.struct(OperandType, parts)

    def channel_quant(self):
        """A struct, mostly of the right parts."""
        parts = {"channel_dim": self.odd_or(0, 1), "scales": self.odd_or((0.5, 0.25))}
        return self.struct(nnapi.SymmPerChannelQuantParams, parts)

    def argument(self, name):
        """A value for a parameter, mostly of the right kind."""
        if self.random.random() < 0.1:
            return self.odd()
        kinds = {
            "model": "Model", "value": "Model", "compilation": "Compilation", "burst": "Burst",
            "memory": "Memory", "dst": "Memory", "desc": "MemoryDesc",
        }  # fmt: skip
        if name in kinds:
            return self.pick(kinds[name])
        choices = {
            "type": [
                OperandType(FLOAT, (2, 3)),
                OperandType(OperandCode.INT32),
                OperandType(FLOAT, ()),
                OperandType(OperandCode.MODEL),
                OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (0, 3), 0.5, 3),
                *OperationCode,
                *(self.operand_type() for _ in range(8)),
            ],
            "buffer": [array(), np.int32(0), bytes(24), bytearray(24), array()[:, ::2], None],
            "devices": [[self.pick("Device")], [device(REFERENCE)]],
            "inputs": [[0, 1, 2], [0, 1], [0], [1]],
            "outputs": [[3], [1], [0]],
            "dependencies": [[], [self.pick("Event")]],
            "token": [TOKEN],
            "cache_dir": ["nowhere"],
            "channel_quant": [
                nnapi.SymmPerChannelQuantParams(0, (0.5, 0.5)),
                self.channel_quant(),
            ],
            "frequency": [0.5],
        }
        return self.random.choice(choices.get(name, [0, 0, 1, 2, 3, 24, *NUMBERS]))

    def step(self):
        method = self.random.choice(sorted(FUNCTIONS))
        owner = method.rpartition(".")[0]
        if self.random.random() < 0.05:
            call = VALID[method]()
        else:
            call = Call(method, self.pick(owner) if owner else None)
            names = read_names(call)
            call.args = {name: self.argument(name) for name in names}
        self.run(call)


def read_names(call):
    """The parameters of a call that have no default, or now and then one that has."""
    code = call.function
    code = getattr(code, "__wrapped__", getattr(code, "__func__", code))
    count = code.__code__.co_argcount
    return [name for name in code.__code__.co_varnames[:count] if name not in ("self", "cls")]


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_every_call_succeeds_or_gives_a_clean_error(seed):
    pool = Pool(seed)
    for _ in range(CALLS):
        pool.step()


def test_the_schema_names_what_is_called():
    assert len(read_schema("nnapi/api.json")["functions"]) == len(FUNCTIONS)
