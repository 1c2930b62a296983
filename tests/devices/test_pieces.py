"""Models in pieces for several devices: they give what the whole model gives."""

import itertools
import json
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nnconv.backends.partition import cut, live_nodes
from nnconv.backends.pieces import PiecesExecutable
from nnconv.backends.reference.executable import ReferenceExecutable

import nnconv
from nnconv import backends
from nnconv.errors import BackendError, Reason, UnsupportedError, UnsupportedItem
from nnconv.formats.tflite.reader import read
from nnconv.ir import DType, Graph, Model, Signature, State, TensorType, Value
from nnconv.ir.builder import Builder
from nnconv.ops.control import If, While
from nnconv.ops.elementwise import Abs, Add, Less, Neg, Sqrt
from support.random_graphs import draw

REFERENCE = "reference"
ONE = TensorType(DType.FLOAT32, (1,))
FLAG = TensorType(DType.BOOL, (1,))


class Devices:
    """Devices that compute as the reference does, and refuse nodes.

    Attributes:
        seen: the device and the ops of each piece that was compiled.
        names: the device and the name of each.
    """

    def __init__(self, refuses, *, tells=True):
        """Have ``refuses(device, node)`` tell; the errors name the nodes if they are to."""
        self.refuses = refuses
        self.tells = tells
        self.seen = []
        self.names = []

    def compile(self, model, device, name):
        nodes = list(model.graph.nodes)
        if device != REFERENCE:
            refused = [node for node in nodes if self.refuses(device, node)]
            if refused and self.tells:
                raise UnsupportedError(
                    UnsupportedItem(
                        op=node.op.name,
                        where="",
                        why="",
                        reason=Reason.NOT_IMPLEMENTED,
                        node=node.origin.index,
                    )
                    for node in refused
                )
            if refused:
                raise BackendError("some node is refused")
        self.seen.append((device, [node.op.name for node in nodes]))
        self.names.append((device, name))
        return ReferenceExecutable(model, device)


def pieces(model, devices, names=("a", "b", REFERENCE)):
    return PiecesExecutable(model, list(names), devices.compile)


def feeds_of(executable, arrays):
    return dict(zip((info.name for info in executable.inputs), arrays, strict=True))


def results(executable, arrays):
    return list(executable.run(feeds_of(executable, arrays)).values())


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        if one.dtype.kind == "f":  # what lies in memory otherwise is summed in another order
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, other)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 400),
    masks=st.tuples(st.integers(0, 2**24), st.integers(0, 2**24)),
    tells=st.booleans(),
)
def test_random_graphs_in_random_pieces_give_the_same(seed, masks, tells):
    _, content = draw(seed)
    model = read(content)
    rng = np.random.default_rng(seed)
    arrays = [fitting(value, rng) for value in model.inputs]
    whole = backends.compile(model, REFERENCE)
    bits = {"a": masks[0], "b": masks[1]}

    def refuses(device, node):
        if tells:
            return bits[device] >> node.origin.index % 24 & 1
        return bits[device] >> len(node.op.name) % 24 & 1  # nodes alike are refused alike

    devices = Devices(refuses, tells=tells)
    made = pieces(model, devices)
    assert_same(results(made, arrays), results(whole, arrays))
    assert_same(results(made, arrays), results(whole, arrays))  # states go on
    whole.reset()
    assert_bound_runs_alike(made, whole, arrays)
    assert len(set(devices.names)) == len(devices.names)
    asked = len(devices.names)
    cuts = json.loads(json.dumps(made.cuts))
    again = backends.compile_pieces(
        model, ["a", "b", REFERENCE], compile_model=devices.compile, cuts=cuts
    )
    whole.reset()
    assert_same(results(again, arrays), results(whole, arrays))
    assert len(devices.names) - asked == again.piece_count == made.piece_count
    assert set(devices.names[asked:]) <= set(devices.names[:asked])


def assert_bound_runs_alike(made, whole, arrays):
    """What has been bound gives the same for whatever its inputs hold."""
    wanted = results(whole, arrays)
    targets = [np.zeros_like(each) for each in wanted]
    given = [array.copy() for array in arrays]
    run = made.bind(given, targets)
    if run is None:
        return
    for _ in range(3):
        run()
        assert_same(targets, wanted)
        for array in given:
            array[...] = np.flip(array).copy()
        wanted = results(whole, given)


def fitting(value, rng):
    shape = tuple(d if isinstance(d, int) else 2 for d in value.shape)
    if value.dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if value.dtype.is_integer:
        low, high = value.dtype.int_range if value.quant is not None else (0, 4)
        return rng.integers(low, high, shape, endpoint=True).astype(value.dtype.numpy)
    return rng.uniform(0.1, 1, shape).astype(value.dtype.numpy)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_pieces_run_in_an_order_and_are_as_large_as_can_be(data):
    graph, nodes = random_dag(data)
    homes = {node: data.draw(st.integers(0, 2)) for node in nodes}
    found = cut(nodes, homes)
    assert sorted(map(id, (n for piece in found for n in piece))) == sorted(map(id, nodes))
    ready = set(graph.inputs)
    for piece in found:
        assert len({homes[node] for node in piece}) == 1
        for node in piece:
            assert all(value in ready for value in node.inputs)
            ready.update(node.outputs)
    for one, other in itertools.pairwise(found):
        assert homes[one[0]] != homes[other[0]], "pieces of one home in a row are one"


def random_dag(data):
    graph = Graph()
    values = [Value("x", ONE)]
    graph.inputs = list(values)
    builder = Builder(graph)
    for _ in range(data.draw(st.integers(1, 14))):
        picked = [data.draw(st.sampled_from(values)) for _ in range(2)]
        values.append(builder.add(Add(), picked))
    graph.outputs = values[1:]
    return graph, live_nodes(graph)


def chain(*ops):
    graph = Graph()
    graph.inputs = [Value("x", ONE)]
    builder = Builder(graph)
    value = graph.inputs[0]
    for op in ops:
        value = builder.add(op, [value])
    graph.outputs = [value]
    return model_of(graph)


def model_of(graph):
    return Model([Signature("", graph)])


def refusing(*ops):
    return Devices(lambda device, node: device == "a" and isinstance(node.op, ops))


def test_what_a_device_refuses_goes_to_the_next():
    devices = refusing(Sqrt)
    made = pieces(chain(Neg(), Abs(), Sqrt(), Neg(), Abs()), devices)
    assert devices.seen == [("a", ["Neg", "Abs"]), ("b", ["Sqrt"]), ("a", ["Neg", "Abs"])]
    assert (made.device, made.piece_count) == ("a+b", 3)
    assert results(made, [np.float32([4])])[0] == [2]


def test_nothing_is_left_where_no_device_takes_a_node():
    with pytest.raises(BackendError, match=r"^a: 1 unsupported node: Sqrt"):
        pieces(chain(Neg(), Sqrt()), refusing(Sqrt), ["a"])


def test_a_device_that_names_no_node_is_asked_for_each_kind_once():
    asked = []

    def refuses(_, node):
        asked.append(node.op.name)
        return isinstance(node.op, Sqrt)

    devices = Devices(refuses, tells=False)
    made = pieces(chain(*[Abs(), Sqrt()] * 20), devices, ["a", REFERENCE])
    assert made.piece_count == 40
    assert len(asked) <= 40 + 2 + 20


def body(*ops, condition=False):
    graph = Graph()
    graph.inputs = [Value("x", ONE)]
    builder = Builder(graph)
    value = graph.inputs[0]
    for op in ops:
        value = builder.add(op, [value])
    if condition:
        limit = builder.const(np.float32([50]))
        value = builder.add(Less(), [value, limit])
    else:
        one = builder.const(np.float32([1]))
        value = builder.add(Add(), [value, one])
    graph.outputs = [value]
    return graph


def loop(*ops):
    graph = Graph()
    graph.inputs = [Value("x", ONE)]
    bodies = [body(condition=True), body(*ops)]
    builder = Builder(graph)
    (result,) = builder.add_typed(While(), graph.inputs, [ONE], bodies=bodies)
    graph.outputs = [result]
    return model_of(graph)


def test_the_body_of_a_loop_is_cut():
    devices = Devices(
        lambda device, node: (
            device == "a"
            and any(
                isinstance(n.op, Sqrt) for n in (node, *(n for b in node.bodies for n in b.nodes))
            )
        )
    )
    model = loop(Abs(), Abs(), Sqrt(), Abs())
    devices.seen.clear()
    made = pieces(model, devices, ["a", REFERENCE])
    assert made.device == "a+reference"
    # sqrt(x) + 1 stays below 50: the limit on time ends it
    with (
        pytest.raises(backends.DeadlineError),
        backends.limited(backends.Limits(loop_seconds=0.05)),
    ):
        results(made, [np.float32([4])])


def test_a_loop_in_pieces_turns_as_often():
    devices = Devices(lambda _, node: isinstance(node.op, Neg | While))
    model = loop(Neg(), Neg())
    made = pieces(model, devices, ["a", REFERENCE])
    assert made.device == "a+reference"
    assert_same(
        results(made, [np.float32([4])]),
        results(backends.compile(model, REFERENCE), [np.float32([4])]),
    )


def choice(flag):
    """A choice by a flag of this type, and a device that takes one of its bodies alone."""
    graph = Graph()
    graph.inputs = [Value("flag", flag), Value("x", ONE)]
    builder = Builder(graph)
    bodies = [body(Abs(), Sqrt()), body(Neg())]
    (result,) = builder.add_typed(If(), graph.inputs, [ONE], bodies=bodies)
    graph.outputs = [result, result, graph.inputs[1]]
    return model_of(graph), Devices(lambda _, node: isinstance(node.op, Sqrt | If))


@pytest.mark.parametrize("flag", [False, True])
def test_the_bodies_of_a_choice_are_cut(flag):
    model, devices = choice(FLAG)
    arrays = [np.array([flag]), np.float32([9])]
    made = pieces(model, devices, ["a", REFERENCE])
    assert made.device == "a+reference"
    assert_same(results(made, arrays), results(backends.compile(model, REFERENCE), arrays))


@pytest.mark.parametrize("count", [0, 2])
def test_a_condition_that_is_not_one_element_is_refused(count):
    model, devices = choice(TensorType(DType.BOOL, (None,)))
    arrays = [np.ones(count, bool), np.float32([9])]
    fault = rf"a condition has shape \[{count}\], must have one element"
    with pytest.raises(BackendError, match=f"^{fault}"):
        results(pieces(model, devices, ["a", REFERENCE]), arrays)
    with pytest.raises(BackendError, match=rf"^If \(.*\): {fault}"):
        results(backends.compile(model, REFERENCE), arrays)


def test_the_reference_stands_in_where_there_is_nothing_to_compute_with():
    graph = Graph()
    graph.inputs = [Value("x", TensorType(DType.FLOAT32, (None, 2)))]
    builder = Builder(graph)
    graph.outputs = [builder.add(Neg(), [builder.add(Abs(), graph.inputs)])]
    ran = []

    class Watched(ReferenceExecutable):
        def _execute(self, feeds):
            ran.append(self.device)
            if self.device == "b":
                raise BackendError("b fails while running")
            return super()._execute(feeds)

    def run(model, device, _):
        if device == "a" and any(isinstance(n.op, Neg) for n in model.graph.nodes):
            raise BackendError("no Neg")
        return Watched(model, device)

    made = PiecesExecutable(model_of(graph), ["a", "b", REFERENCE], run)
    (empty,) = results(made, [np.zeros((0, 2), np.float32)])
    assert (empty.shape, ran) == ((0, 2), [])
    (some,) = results(made, [np.ones((3, 2), np.float32)])
    assert (some == -1).all()
    assert ran == ["a", "b"]


def test_states_pass_through_pieces():
    graph = Graph()
    x, before = Value("x", ONE), Value("sum", ONE)
    graph.inputs = [x, before]
    builder = Builder(graph)
    after = builder.add(Add(), [builder.add(Abs(), [x]), before])
    graph.outputs = [builder.add(Sqrt(), [after]), after]
    state = State(before, after, np.float32([9]), "sum")
    model = Model([Signature("", graph, states=(state,))])
    made = pieces(model, refusing(Sqrt), ["a", REFERENCE])
    assert made.device == "a+reference"
    assert [results(made, [np.float32([-n])])[0][0] for n in (7, 9, 24)] == [4, 5, 7]
    made.reset()
    assert results(made, [np.float32([7])])[0] == [4]


def test_files_of_a_device_run_there_as_they_are(tmp_path):
    path = tmp_path / "model.onnx"
    nnconv.save(chain(Abs()), path)
    made = nnconv.compile(path, "onnxruntime:cpu,reference")
    assert made.device == "onnxruntime:cpu"
    nnconv.save(chain(Neg(), Abs()), tmp_path / "model.tflite")
    assert nnconv.compile(tmp_path / "model.tflite", "litert:cpu,reference").device == "litert:cpu"


def test_threads_share_pieces():
    model = chain(*[Abs(), Sqrt(), Neg()] * 5, Abs())
    devices = Devices(lambda _, node: isinstance(node.op, Sqrt))

    def run(part, device, name):
        devices.compile(part, device, name)
        return backends.compile(part, device)

    made = PiecesExecutable(model, ["litert:cpu", REFERENCE], run)
    assert made.device == "litert:cpu+reference"
    wrong = []

    def work(number):
        for _ in range(50):
            (found,) = results(made, [np.float32([number])])
            wanted = number ** (1 / 32)
            if abs(found[0] - wanted) > 1e-5:
                wrong.append((number, found[0], wanted))

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 16, 256, 4096)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_compile_takes_several_devices():
    model = chain(Abs(), Neg())
    assert nnconv.compile(model, "litert:cpu,reference").device == "litert:cpu"
    assert nnconv.compile(model, "reference,litert:cpu").device == REFERENCE
    assert nnconv.compile(model, " reference ").device == REFERENCE
    with pytest.raises(nnconv.errors.UsageError, match="no device 'nowhere'"):
        nnconv.compile(model, "reference,nowhere")
    with pytest.raises(nnconv.errors.UsageError, match="no option threads"):
        nnconv.compile(model, "onnxruntime:cpu,reference", threads=1)


@pytest.mark.parametrize("name", ["onnxruntime:cpu", "litert:cpu"])
def test_bound_pieces_write_where_the_next_ones_read(name):
    devices = Devices(lambda device, node: device != REFERENCE and isinstance(node.op, Sqrt))

    def run(part, device, piece):
        devices.compile(part, device, piece)
        return backends.compile(part, device)

    model = chain(Abs(), Sqrt(), Neg(), Abs(), Sqrt(), Neg())
    made = PiecesExecutable(model, [name, REFERENCE], run)
    assert made.piece_count == 5
    data, result = np.float32([0]), np.float32([0])
    bound = made.bind([data], [result])
    for value in (-16, 81, 256):
        data[:] = value
        bound()
        assert result == -(abs(value) ** 0.25)


def test_pieces_are_not_bound_to_what_does_not_fit():
    made = pieces(chain(Abs(), Sqrt()), refusing(Sqrt), ["a", REFERENCE])
    one = np.float32([4])
    assert made.bind([one], [one.copy()]) is not None
    for other in (np.zeros(2, np.float32), np.zeros(1), np.zeros((1, 1), np.float32)):
        assert made.bind([other], [one.copy()]) is None
        assert made.bind([one], [other]) is None


def test_the_reference_stands_in_where_what_was_bound_fails(monkeypatch):
    model = chain(Abs(), Sqrt())
    devices = refusing(Sqrt)

    def run(part, device, piece):
        devices.compile(part, device, piece)
        return backends.compile(part, "onnxruntime:cpu" if device == "a" else device)

    made = PiecesExecutable(model, ["a", REFERENCE], run)
    first = made.parts[0]

    def fails():
        raise BackendError("it fails while running")

    monkeypatch.setattr(first, "bind", lambda *_: fails)
    monkeypatch.setattr(first, "_execute", lambda *_: fails())
    data, result = np.float32([-16]), np.float32([0])
    made.bind([data], [result])()
    assert result == 4
