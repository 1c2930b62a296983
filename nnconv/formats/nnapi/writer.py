"""Writing an IR model as an NNAPI model: interface, names, bodies."""

from __future__ import annotations

from nnconv.decompositions.base import Evaluate
from nnconv.errors import UnsupportedError
from nnconv.formats.graph_export import check_ends, report_of
from nnconv.formats.marks import RELAXED
from nnconv.formats.nnapi.exporter import FileTarget
from nnconv.formats.nnapi.operands import SIGNED_LEVEL
from nnconv.formats.nnapi.types import NEWEST_LEVEL, OperandCode
from nnconv.formats.nnapi.wire import Model as WireModel
from nnconv.formats.nnapi.wire import Operand
from nnconv.formats.written import Written
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Model, Signature, Value
from nnconv.ir.types import TensorType


def to_wire(
    model: Model, signature: Signature, *, level: int = NEWEST_LEVEL, evaluate: Evaluate
) -> tuple[WireModel, Written]:
    """One entry point of a model as an NNAPI model that is valid at a feature level.

    States are inputs and outputs behind the others. ``evaluate`` runs one node on constants.

    Raises:
        UnsupportedError: with every node that NNAPI can't hold.
    """
    graph = signature.graph
    check_ends(graph, "NNAPI", model.source)
    target = FileTarget(evaluate, level=level, keeps_wide=model.format == "nnapi")
    main, refused = target.graph(graph)
    if main is None:
        raise UnsupportedError(dict.fromkeys(refused), path=model.source)
    inputs = [main.operands[i] for i in main.inputs]
    outputs = [main.operands[i] for i in main.outputs]
    referenced = [g for g in target.referenced if g is not None]
    result = WireModel(main, referenced, relaxed=RELAXED in model.metadata)
    operations = (op.code.name for _, g in result.graphs() for op in g.operations)
    report = report_of(inputs, outputs, operations)
    ends = zip((*graph.inputs, *graph.outputs), (*inputs, *outputs), strict=True)
    notes = [note for value, operand in ends if (note := _stood_in_for(value, operand))]
    report.notes = [*notes, *target.told("NNAPI")]
    return result, report


def _stood_in_for(value: Value, operand: Operand) -> str:
    """What to tell of an input or output that int32 stands in for; its type is that from now on."""
    kind = value.type
    is_same = kind.dtype is DType.INT32 and not kind.has_codes
    if operand.type is not OperandCode.TENSOR_INT32 or is_same:
        return ""
    value.type = TensorType(DType.INT32, kind.shape)
    meaning = ""
    if kind.quant is not None and kind.quant.is_per_tensor:
        point = kind.quant.zero_point[0]
        sign = "-" if point > 0 else "+"
        codes = f"(code {sign} {abs(point)})" if point else "code"
        meaning = f", real = {kind.quant.scale[0]:.9g} * {codes}"
    if kind.dtype is DType.INT32:
        return f"`{operand.name}` is int32{meaning}, which NNAPI can't tell of it"
    lacks = f"needs feature level {SIGNED_LEVEL}" if kind.dtype is DType.INT8 else "NNAPI lacks"
    return f"`{operand.name}` is {kind.dtype}{meaning}, which {lacks}: it becomes int32"
