"""Every operation of NNAPI in every form of its table, read and written as NNAPI again.

The table says which operands there are and of which types; here are extents and numbers for them.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from nnconv.backends.reference.executor import run_graph

from nnconv.formats.nnapi.check import check
from nnconv.formats.nnapi.graph import GraphImport
from nnconv.formats.nnapi.reader import import_model
from nnconv.formats.nnapi.table import Signature, Variant, spec_of
from nnconv.formats.nnapi.types import (
    NUMPY,
    PER_CHANNEL,
    SCALARS,
    ZERO_POINTS,
    OperandCode,
    OperationCode,
)
from nnconv.formats.nnapi.wire import ChannelQuant, Graph, Lifetime, Model, Operand, Operation
from nnconv.lowering import one_entry, to_nnapi

SIGNED = (OperandCode.TENSOR_QUANT8_SYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED)
"""The same codes of zero point 0: the second is what they become."""

WITH_MODELS = {"IF", "WHILE"}
"""Operations on graphs, which test_exports_control is about."""

QUANTS = {
    OperandCode.TENSOR_QUANT8_ASYMM: (0.25, 100),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (0.25, -3),
    OperandCode.TENSOR_QUANT16_ASYMM: (0.125, 0),
    OperandCode.TENSOR_QUANT16_SYMM: (2.0**-11, 0),
    OperandCode.TENSOR_QUANT8_SYMM: (0.25, 0),
}
FINE_QUANTS = {**QUANTS, OperandCode.TENSOR_QUANT8_ASYMM: (2.0**-7, 128)}

DEFAULTS = {1: (4,), 2: (2, 4), 3: (2, 3, 2), 4: (2, 4, 4, 2)}
"""Extents by the least rank that suits, where the table gives none."""

EXTENTS = {
    "anchors": 2, "anchors*4": 8, "aux": 2, "batch": 2, "batches": 2, "boxes": 2, "bw_aux": 2,
    "bw_cells": 4, "bw_in": 2, "bw_out": 4, "cells": 4, "classes": 3, "classes*4": 12, "fh": 2,
    "filters": 4, "fw": 2, "h": 2, "in": 2, "in*mult": 4, "in/groups": 1, "input_size": 4, "k": 2,
    "keypoints": 2, "memory": 3, "memory*filters": 12, "n": 2, "num_bits": 3, "num_hash": 2,
    "out": 4, "rank": 2, "rois": 2, "size": 3, "units": 2, "w": 2, ">=4": 4, "...": 3,
}  # fmt: skip

SEQUENCE = {
    **dict.fromkeys(("weights", "fw_weights", "bw_weights"), (3, 2)),
    **dict.fromkeys(("fw_aux_weights", "bw_aux_weights"), (3, 2)),
    **dict.fromkeys(("recurrent_weights", "fw_recurrent_weights"), (3, 3)),
    "bw_recurrent_weights": (3, 3),
    **dict.fromkeys(("bias", "fw_bias", "bw_bias"), (3,)),
    **dict.fromkeys(("hidden_state", "fw_hidden_state", "bw_hidden_state"), (2, 3)),
    "input": (2, 2, 2),
    "aux_input": (2, 2, 2),
}
GATES = ("input", "forget", "cell", "output")
SHAPES = {
    "BATCH_MATMUL": {"lhs": (2, 4), "rhs": (3, 4)},
    "BIDIRECTIONAL_SEQUENCE_LSTM": {"input": (2, 2, 2), "aux_input": (2, 2, 2)},
    "BIDIRECTIONAL_SEQUENCE_RNN": SEQUENCE,
    "DEPTH_TO_SPACE": {"input": (2, 2, 2, 4)},
    "LSH_PROJECTION": {"weight": (2,)},
    "PRELU": {"alpha": (4,)},
    "QUANTIZED_16BIT_LSTM": {
        **{f"input_to_{gate}_weights": (4, 2) for gate in GATES},
        **{f"recurrent_to_{gate}_weights": (4, 4) for gate in GATES},
        **{f"{gate}_gate_bias": (4,) for gate in GATES},
        "cell_state_in": (2, 4),
        "output_in": (2, 4),
    },
    "SELECT": {"condition": (2, 4)},
    "SQUEEZE": {"input": (1, 4)},
    "TRANSPOSE_CONV_2D": {"bias": (4,)},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {"input": (2, 2, 2)},
    "UNIDIRECTIONAL_SEQUENCE_RNN": SEQUENCE,
}
"""Extents that differ from these."""

BOXES = [[0, 0, 2, 2], [1, 1, 3, 4]]
CONSTANTS = {
    "AXIS_ALIGNED_BBOX_TRANSFORM": {"batches": [0, 1], "image_info": [[8, 8], [6, 6]]},
    "BATCH_TO_SPACE_ND": {"block_sizes": [2, 1]},
    "BOX_WITH_NMS_LIMIT": {"rois": [BOXES[0] * 3, BOXES[1] * 3], "batches": [0, 1]},
    "EMBEDDING_LOOKUP": {"lookups": [1, 0, 1]},
    "GATHER": {"indices": [1, 0, 1]},
    "GENERATE_PROPOSALS": {"anchors": BOXES, "image_info": [[8, 8], [6, 6]]},
    "HASHTABLE_LOOKUP": {"lookups": [5, 2], "keys": [1, 5]},
    "HEATMAP_MAX_KEYPOINT": {"boxes": BOXES},
    "MEAN": {"axes": [1]},
    "MIRROR_PAD": {"paddings": [[0, 1], [1, 1]]},
    "PAD": {"paddings": [[1, 0], [0, 2]]},
    "PAD_V2": {"paddings": [[1, 0], [0, 2]]},
    "RANDOM_MULTINOMIAL": {"seeds": [1, 2]},
    **{f"REDUCE_{name}": {"axes": [1]} for name in ("ALL", "ANY", "MAX", "MIN", "PROD", "SUM")},
    "RESHAPE": {"shape": [4, 2]},
    "REVERSE": {"axis": [1]},
    "ROI_ALIGN": {"rois": BOXES, "batches": [0, 1]},
    "ROI_POOLING": {"rois": BOXES, "batches": [0, 1]},
    "SLICE": {"begin": [0, 1], "size": [2, 2]},
    "SPACE_TO_BATCH_ND": {"block_sizes": [2, 2], "paddings": [[0, 0], [0, 2]]},
    "SQUEEZE": {"axes": [0]},
    "STRIDED_SLICE": {"begin": [0, 1], "end": [2, 4], "strides": [1, 2]},
    "TILE": {"multiples": [1, 2]},
    "TRANSPOSE": {"perm": [1, 0]},
    "TRANSPOSE_CONV_2D": {"output_shape": [2, 4, 4, 4]},
}
"""Tensors that no run gives."""

GIVEN = {"FILL": {"dims": [2, 3]}}
"""What runs give where any numbers won't do."""

NUMBERS = {
    "activation": 0, "adj_x": False, "adj_y": True, "align_corners": False, "alpha": 0.5,
    "axis": 1, "background_in_label": False, "begin_mask": 0, "beta": 0.5, "bias": 1.0,
    "block_size": 2, "cell_clip": 0.5, "cell_intermediate_scale": 0.01, "count": 2,
    "depth_multiplier": 2, "dilation_height": 1, "dilation_width": 1, "end_mask": 0,
    "epsilon": 0.01, "filter_height": 2, "filter_width": 2, "forget_intermediate_scale": 0.01,
    "gamma": 1.5, "groups": 2, "half_pixel_centers": True, "height": 8, "height_samples": 2,
    "height_stride": 1.0, "hidden_state_scale": 0.01, "hidden_state_zero_point": 0,
    "input_intermediate_scale": 0.01, "iou_threshold": 0.4, "k": 2, "keep_dims": True,
    "max_classes_per_detection": 1, "max_detections": 3, "max_detections_per_class": 2,
    "merge_outputs": False, "min_size": 0.5, "mode": 1, "nms_kernel": 1,
    "nms_score_threshold": 0.1, "out_height": 2, "out_width": 2,
    "output_intermediate_scale": 0.01, "pad_bottom": 1, "pad_left": 1, "pad_right": 0,
    "pad_top": 0, "pad_value": 3, "padding_scheme": 1, "post_nms_limit": 4, "pre_nms_limit": 6,
    "projection_clip": 0.5, "radius": 1, "rank": 2, "samples": 5, "scale_h": 5.0, "scale_w": 5.0,
    "scale_x": 10.0, "scale_y": 10.0, "score_threshold": 0.2, "shrink_axis_mask": 0,
    "sigma": 0.5, "stride_height": 1, "stride_width": 1, "time_major": True, "type": 2,
    "use_regular_nms": False, "value": 3, "width": 6, "width_samples": 2, "width_stride": 1.0,
}  # fmt: skip
OF_OPERATION = {
    "ELU": {"alpha": 0.5},
    "LSTM": {"activation": 4},
    "RNN": {"activation": 4},
    "BIDIRECTIONAL_SEQUENCE_LSTM": {"activation": 4},
    "BIDIRECTIONAL_SEQUENCE_RNN": {"activation": 4},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {"activation": 4},
    "UNIDIRECTIONAL_SEQUENCE_RNN": {"activation": 4, "time_major": 1},
    "PACK": {"axis": 0},
}
"""Numbers that differ from these."""

RUN_LENGTH = 2
"""So many operands stand where a run of them may."""


@dataclass(frozen=True)
class Form:
    """An operation as one of its variants and signatures has it, in one layout."""

    code: OperationCode
    variant: Variant
    signature: Signature
    nchw: bool

    def __str__(self) -> str:
        types = "-".join(
            kind.name.removeprefix("TENSOR_") for kind in self.signature.types.values()
        )
        return "-".join([self.code.name, self.variant.name, types, "NCHW" if self.nchw else "NHWC"])


def forms():
    for code in OperationCode:
        if code.name in WITH_MODELS:
            continue
        for variant in spec_of(code).variants:
            layouts = [False] if variant.layout is None else [False, True]
            for signature in spec_of(code).signatures:
                yield from (Form(code, variant, signature, nchw) for nchw in layouts)


class Maker:
    """The model of a form."""

    def __init__(self, form: Form) -> None:
        self.form, self.name = form, form.code.name
        self.spec = spec_of(form.code)
        self.operands: list[Operand] = []
        self.inputs: list[int] = []
        self.scales: dict[str, Operand] = {}
        fine = self.name == "QUANTIZED_16BIT_LSTM"
        self.quants = FINE_QUANTS if fine else QUANTS

    def type_of(self, formal):
        return self.form.signature.types[formal.var] if formal.var else next(iter(formal.types))

    def shape_of(self, formal):
        own = SHAPES.get(self.name, {}).get(formal.name)
        given = GIVEN.get(self.name, {}).get(formal.name)
        if given is not None:
            return np.shape(given)
        if own is not None:
            return (own[0], own[3], own[1], own[2]) if self.form.nchw and len(own) == 4 else own
        least, most = formal.rank or (1, None)
        if formal.dims is not None:
            dims = tuple(EXTENTS[d] if isinstance(d, str) else d for d in formal.dims)
        else:
            dims = DEFAULTS[max(least, 2 if most is None or most >= 2 else 1)]
        image = formal.image or (formal.dims is None and len(dims) == 4)
        return (dims[0], dims[3], dims[1], dims[2]) if image and self.form.nchw else dims

    def operand(self, formal, dims, **options):
        kind = self.type_of(formal)
        scale, point = self.quants.get(kind, (0.0, 0))
        for key in (kind.name, "any"):
            if kind in ZERO_POINTS and key in formal.quant:
                scale, point = formal.quant[key]
        if kind is PER_CHANNEL:
            dim = next((r["is"] for r in self.spec.rules if r["rule"] == "channel_dim"), 0)
            options["channel_quant"] = ChannelQuant(
                dim, [0.125 * (i + 1) for i in range(dims[dim])]
            )
        if formal.name == "bias" and kind is OperandCode.TENSOR_INT32:
            weights = self.scales["weights" if "weights" in self.scales else "filter"]
            scale = self.scales["input"].scale * weights.scale
        made = Operand(kind, dims, scale=scale, zero_point=point, **options)
        self.operands.append(made)
        self.scales.setdefault(formal.name, made)
        return len(self.operands) - 1

    def encoded(self, formal, numbers):
        kind = self.type_of(formal)
        scale, point = self.quants.get(kind, (1.0, 0))
        return np.rint(np.asarray(numbers, np.float64) / scale + point).astype(NUMPY[kind])

    def input_of(self, formal):
        kind = self.type_of(formal)
        if kind in SCALARS:
            number = OF_OPERATION.get(self.name, {}).get(formal.name, NUMBERS.get(formal.name))
            if formal.name == "nchw":
                number = self.form.nchw
            if formal.name in ("width", "height") and kind is not OperandCode.INT32:
                number = number / 4
            value = np.asarray(number, NUMPY[kind])
            return self.operand(formal, (), lifetime=Lifetime.CONSTANT, value=value)
        constant = CONSTANTS.get(self.name, {}).get(formal.name)
        if constant is not None:
            value = self.encoded(formal, constant)
            return self.operand(formal, value.shape, lifetime=Lifetime.CONSTANT, value=value)
        index = self.operand(formal, self.shape_of(formal), lifetime=Lifetime.INPUT)
        self.inputs.append(index)
        return index

    def model(self):
        formals = []
        for formal in self.form.variant.inputs:
            formals += [formal] * (RUN_LENGTH if formal.repeat else 1)
        inputs = [self.input_of(formal) for formal in formals]
        counts = self.spec.output_counts
        count = counts[-1] if counts else RUN_LENGTH if self.name == "SPLIT" else None
        outputs = self.spec.output_specs(count or len(self.spec.outputs))
        first = len(self.operands)
        for formal in outputs:
            self.operand(formal, (), lifetime=Lifetime.OUTPUT)
        places = list(range(first, first + len(outputs)))
        graph = Graph(
            self.operands, [Operation(self.form.code, inputs, places)], self.inputs, places
        )
        model = Model(graph)
        for place, value in zip(places, GraphImport(model, graph).run().outputs, strict=True):
            self.operands[place].dimensions = tuple(d or 0 for d in value.shape or ())
        return model


def drawn(operand, rng):
    dtype, dims = NUMPY[operand.type], operand.dimensions
    if dtype.kind == "f":
        return rng.uniform(0.25, 1.75, dims).astype(dtype)
    if operand.type is OperandCode.TENSOR_BOOL8:
        return rng.integers(0, 2, dims).astype(np.bool_)
    return (rng.integers(1, 7, dims) + operand.zero_point).astype(dtype)


def results_of(model, feeds):
    graph = import_model(model).graph
    return run_graph(
        graph, [f.astype(v.dtype.numpy) for f, v in zip(feeds, graph.inputs, strict=True)]
    )


FORMS = list(forms())


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_form_comes_back(form):
    model = Maker(form).model()
    check(model)
    again = to_nnapi(one_entry(loaded := import_model(model), loaded.main)).model
    check(again)
    rng = np.random.default_rng(1)
    main = model.main
    ends = zip(
        (*main.inputs, *main.outputs), (*again.main.inputs, *again.main.outputs), strict=True
    )
    kinds = [(main.operands[i].type, again.main.operands[k].type) for i, k in ends]
    assert all(old is new or (old, new) == SIGNED for old, new in kinds)
    given = GIVEN.get(form.code.name)
    feeds = [drawn(main.operands[i], rng) for i in main.inputs]
    if given is not None:
        feeds = [np.asarray(numbers, np.int32) for numbers in given.values()]
    wanted, seen = results_of(model, feeds), results_of(again, feeds)
    for place, want, got in zip(main.outputs, wanted, seen, strict=True):
        kind = main.operands[place].type
        assert want.shape == got.shape
        if form.code.name == "RANDOM_MULTINOMIAL":
            continue
        if NUMPY[kind].kind == "f":
            coarse = any(NUMPY[o.type] == np.float16 for o in main.operands)
            assert np.allclose(
                want, got, rtol=1e-2 if coarse else 1e-5, atol=1e-3 if coarse else 1e-5
            )
        else:
            assert np.abs(want.astype(np.int64) - got.astype(np.int64)).max(initial=0) <= 1


def test_all_operations_are_there():
    tried = {form.code.name for form in FORMS}
    assert tried | WITH_MODELS == {code.name for code in OperationCode}
