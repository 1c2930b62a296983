"""The passes that bring a graph into the form that each format's writer takes, in order.

TFLite, NNAPI and NNRt share most of theirs: NNAPI's and NNRt's operations are made after TFLite's.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from nnconv.ir.graph import Node

if TYPE_CHECKING:
    import numpy as np

    from nnconv.passes.base import Pass

REFERENCE = "nnconv.backends.reference.executor"
"""The backend whose kernels work out constants; it is loaded where a model has any to work out."""

_HALVES_LEVEL, _SIGNS_LEVEL = 3, 4
"""The levels from which on NNAPI computes with float16, and knows signed codes."""


def evaluate(node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """One node on arrays, by the reference kernels: most models never come here."""
    results: list[np.ndarray] = import_module(REFERENCE).run_node(node, arrays)
    return results


def onnx_passes(layout: Pass, *, moves_edge: bool = False, in_floats: bool = False) -> list[Pass]:
    """The passes that bring a graph into the form that the ONNX writer takes, in order.

    With ``moves_edge`` the layout pass moves the interface too: no input then needs a transpose.
    With ``in_floats`` quantized graphs compute in floats.
    """
    from nnconv.passes.fold_constants import FoldConstantsPass
    from nnconv.passes.fold_dilation import FoldDilationPass
    from nnconv.passes.fold_pads import FoldPadsPass
    from nnconv.passes.merge_columns import MergeColumnsPass
    from nnconv.passes.move_codes import MoveCodesPass
    from nnconv.passes.prune import PrunePass
    from nnconv.passes.respell_norms import RespellNormsPass
    from nnconv.passes.tidy import TidyPass
    from nnconv.passes.to_floats import ToFloatsPass
    from nnconv.passes.widen_channels import WidenChannelsPass

    return [
        PrunePass(),
        FoldConstantsPass(evaluate),
        *([ToFloatsPass(), PrunePass()] if in_floats else []),
        TidyPass(),
        RespellNormsPass(),
        PrunePass(),
        FoldDilationPass(),
        FoldPadsPass(),
        *([] if moves_edge else [MergeColumnsPass()]),
        WidenChannelsPass(),
        layout,
        MoveCodesPass(),
        TidyPass(settled=True),
        PrunePass(),
    ]


def tflite_passes(
    layout: Pass,
    *,
    fold_qdq: Pass | None = None,
    in_floats: bool = False,
    resign: Pass | None = None,
) -> list[Pass]:
    """The passes for TFLite.

    With ``in_floats`` quantized graphs compute in floats. The passes ``fold_qdq``, which
    remembers what can't work on codes, and ``resign`` are the plain ones unless given.
    """
    from nnconv.passes.hybrids import HybridsPass
    from nnconv.passes.resign import ResignPass
    from nnconv.passes.split_columns import SplitColumnsPass
    from nnconv.passes.widen_halves import WidenHalvesPass

    for_kernels = [] if in_floats else [HybridsPass()]
    return [
        *_looking_at_extents(),
        WidenHalvesPass(),
        *_up_to_layout(layout, fold_qdq, in_floats=in_floats, for_kernels=for_kernels),
        resign or ResignPass(),
        *_settling(SplitColumnsPass()),
    ]


def nnapi_passes(
    layout: Pass,
    *,
    fold_qdq: Pass | None = None,
    in_floats: bool = False,
    wide: bool = False,
    level: int,
) -> list[Pass]:
    """The passes for NNAPI at a feature level; with ``wide`` 16-bit codes become floats inside."""
    from nnconv.passes.narrow_numbers import NarrowNumbersPass
    from nnconv.passes.prune import PrunePass
    from nnconv.passes.regroup import RegroupPass
    from nnconv.passes.resize_factors import ResizeFactorsPass
    from nnconv.passes.split_complex import SplitComplexPass
    from nnconv.passes.tidy import TidyPass
    from nnconv.passes.to_floats import ToFloatsPass
    from nnconv.passes.unsign import UnsignPass
    from nnconv.passes.widen_codes import WidenCodesPass, WidenWeightsPass
    from nnconv.passes.widen_halves import WidenHalvesPass

    return [
        *_looking_at_extents(),
        RegroupPass(),
        ResizeFactorsPass(),
        NarrowNumbersPass(),
        SplitComplexPass(),
        PrunePass(),
        WidenCodesPass(),
        *([ToFloatsPass(wide=True), PrunePass()] if wide else []),
        *([WidenHalvesPass()] if level < _HALVES_LEVEL else []),
        *_up_to_layout(layout, fold_qdq, in_floats=in_floats),
        *_settling(),
        WidenWeightsPass(),
        UnsignPass(back=level >= _SIGNS_LEVEL),
        TidyPass(settled=True),
    ]


def nnrt_passes(
    layout: Pass, *, fold_qdq: Pass | None = None, in_floats: bool = False
) -> list[Pass]:
    """The passes for NNRt, which has float16, and signed codes alone."""
    from nnconv.passes.prune import PrunePass
    from nnconv.passes.regroup import RegroupPass
    from nnconv.passes.resign import ResignPass
    from nnconv.passes.resize_factors import ResizeFactorsPass
    from nnconv.passes.split_complex import SplitComplexPass
    from nnconv.passes.widen_codes import WidenCodesPass, WidenWeightsPass

    return [
        *_looking_at_extents(),
        RegroupPass(),
        ResizeFactorsPass(),
        SplitComplexPass(),
        PrunePass(),
        WidenCodesPass(),
        *_up_to_layout(layout, fold_qdq, in_floats=in_floats),
        ResignPass(whole=True),
        *_settling(),
        WidenWeightsPass(),
    ]


def _looking_at_extents() -> list[Pass]:
    """What comes first for channels-last formats: it works with int64, and makes extents known."""
    from nnconv.passes.fold_constants import FoldConstantsPass
    from nnconv.passes.join_codes import JoinCodesPass
    from nnconv.passes.narrow_indices import NarrowIndicesPass
    from nnconv.passes.prune import PrunePass
    from nnconv.passes.resize_axes import ResizeAxesPass

    return [
        PrunePass(),
        JoinCodesPass(),
        NarrowIndicesPass(),
        FoldConstantsPass(evaluate, empty=True),
        ResizeAxesPass(),
    ]


def _up_to_layout(
    layout: Pass, fold_qdq: Pass | None, *, in_floats: bool, for_kernels: Sequence[Pass] = ()
) -> list[Pass]:
    """What makes a graph's ops those of channels-last formats; codes are computed with as codes."""
    from nnconv.passes.fold_dynamic import FoldDynamicPass
    from nnconv.passes.fold_pads import FoldPadsPass
    from nnconv.passes.fold_qdq import FoldQdqPass
    from nnconv.passes.fold_scales import FoldScalesPass
    from nnconv.passes.fuse_activations import FuseActivationsPass
    from nnconv.passes.group_norms import GroupNormsPass
    from nnconv.passes.join_products import JoinProductsPass
    from nnconv.passes.merge_equal import MergeEqualPass
    from nnconv.passes.pixel_shuffles import PixelShufflesPass
    from nnconv.passes.prune import PrunePass
    from nnconv.passes.raise_rows import RaiseRowsPass
    from nnconv.passes.respell import RespellPass
    from nnconv.passes.respell_moves import RespellMovesPass
    from nnconv.passes.spell_dynamic import SpellDynamicPass
    from nnconv.passes.tidy import TidyPass
    from nnconv.passes.to_floats import ToFloatsPass
    from nnconv.passes.whole_quotients import WholeQuotientsPass

    return [
        *([ToFloatsPass(), FoldDynamicPass()] if in_floats else [SpellDynamicPass()]),
        PrunePass(),
        RespellPass(),
        RespellMovesPass(),
        WholeQuotientsPass(),
        TidyPass(),
        GroupNormsPass(),
        JoinProductsPass(),
        FoldScalesPass(),
        FuseActivationsPass(),
        fold_qdq or FoldQdqPass(),
        *for_kernels,
        PrunePass(),
        MergeEqualPass(),
        FuseActivationsPass(),
        RaiseRowsPass(),
        PixelShufflesPass(),
        FoldPadsPass(),
        layout,
    ]


def _settling(*for_kernels: Pass) -> list[Pass]:
    """What follows once layout and codes are final, for channels-last formats."""
    from nnconv.passes.prune import PrunePass
    from nnconv.passes.respell_means import RespellMeansPass
    from nnconv.passes.tidy import TidyPass

    return [TidyPass(settled=True), *for_kernels, RespellMeansPass(), PrunePass()]
