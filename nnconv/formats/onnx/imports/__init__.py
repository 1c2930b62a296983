"""Reading ONNX ops into the IR, one file an op family; each has a table IMPORTERS."""

OPS = {
    "attention": "com.microsoft:Attention com.microsoft:MultiHeadAttention",
    "cast": "BitCast Cast CastLike",
    "control": "If Loop Scan",
    "conv": "Conv ConvInteger ConvTranspose",
    "detection": "NonMaxSuppression",
    "elementwise": (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot "
        "BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor "
        "Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less "
        "LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round "
        "Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh "
        "ThresholdedRelu Where Xor"
    ),
    "fused": (
        "SimplifiedLayerNormalization com.microsoft:BiasGelu "
        "com.microsoft:EmbedLayerNormalization com.microsoft:FastGelu com.microsoft:FusedConv "
        "com.microsoft:FusedGemm com.microsoft:FusedMatMul com.microsoft:Gelu "
        "com.microsoft:QuickGelu com.microsoft:RotaryEmbedding "
        "com.microsoft:SkipLayerNormalization com.microsoft:SkipSimplifiedLayerNormalization "
        "com.microsoft:TransposeMatMul"
    ),
    "gather": (
        "Compress Gather GatherElements GatherND NonZero OneHot Scatter ScatterElements "
        "ScatterND TensorScatter TopK Unique"
    ),
    "matmul": "Det Einsum EyeLike Gemm MatMul MatMulInteger Trilu",
    "ngrams": "TfIdfVectorizer",
    "pad": "CenterCropPad DepthToSpace Pad SpaceToDepth",
    "pool": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxUnpool",
    "qlinear": (
        "QLinearConv QLinearMatMul com.microsoft:DynamicQuantizeMatMul "
        "com.microsoft:MatMulIntegerToFloat com.microsoft:MatMulNBits com.microsoft:QGemm "
        "com.microsoft:QLinearAdd com.microsoft:QLinearAveragePool "
        "com.microsoft:QLinearConcat com.microsoft:QLinearGlobalAveragePool "
        "com.microsoft:QLinearLeakyRelu com.microsoft:QLinearMul "
        "com.microsoft:QLinearReduceMean com.microsoft:QLinearSigmoid "
        "com.microsoft:QLinearSoftmax com.microsoft:QLinearWhere"
    ),
    "quantize": (
        "DequantizeLinear DynamicQuantizeLinear QuantizeLinear com.microsoft:DequantizeLinear "
        "com.microsoft:QuantizeLinear"
    ),
    "random": (
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
    ),
    "recurrent": "GRU LSTM RNN com.microsoft:DynamicQuantizeLSTM",
    "reduce": (
        "ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
    ),
    "resample": "Resize Upsample",
    "sampling": "AffineGrid Col2Im DeformConv GridSample MaxRoiPool RoiAlign",
    "sequence": (
        "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
        "SequenceInsert SequenceLength SplitToSequence"
    ),
    "shape": (
        "Concat Constant ConstantOfShape Expand Flatten Identity Range Reshape Shape Size "
        "Split Squeeze Tile Transpose Unsqueeze"
    ),
    "signal": "DFT MelWeightMatrix STFT",
    "slices": "ReverseSequence Slice",
    "softmax": "Hardmax LogSoftmax Softmax",
    "standardize": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization "
        "LpNormalization MeanVarianceNormalization RMSNormalization"
    ),
}
"""The ops that each file has importers of: a model's own families alone are loaded.

Ops of other domains are listed as ``domain:op type``.
"""
