"""What is told of nodes that can't be exported."""

from nnconv.errors import Reason, UnsupportedItem
from nnconv.formats.refusals import item_of, one_each
from nnconv.ir.builder import Builder
from nnconv.ir.dtype import DType
from nnconv.ir.graph import Graph, Origin
from nnconv.ops.elementwise import Abs


def node_of(origin, name="y"):
    graph = Graph("net")
    b = Builder(graph, origin=origin)
    return b.add(Abs(), [b.input("x", DType.FLOAT32, (2,))], name=name).producer


def refused(origin, why, **more):
    return item_of(node_of(origin), why, reason=Reason.IMPOSSIBLE, **more)


FOURTH = Origin("tflite", "ABS", 4, "subgraph 0")


def test_a_node_is_told_by_its_place_and_the_name_of_a_result():
    item = refused(FOURTH, "no")
    assert (item.op, item.where) == ("Abs", "subgraph 0 op #4 ABS (`y`)")
    assert (item.node, item.scope) == (4, "subgraph 0")


def test_a_node_without_a_place_is_told_by_its_op():
    assert refused(Origin(), "no").where == "Abs (`y`)"
    nameless = item_of(node_of(Origin(), ""), "no", reason=Reason.IMPOSSIBLE)
    assert nameless.where == "Abs"


def test_a_node_that_became_several_ops_is_told_once():
    again = refused(FOURTH, "two", hint="help")
    (item,) = one_each([refused(FOURTH, "one"), again, again])
    assert (item.why, item.hint) == ("one; two", "help")


def test_of_many_reasons_the_first_are_told():
    (item,) = one_each(refused(FOURTH, str(n)) for n in range(5))
    assert item.why == "0; 1; 2; 2 more"


def test_nodes_of_one_number_in_two_graphs_are_told_apart():
    inner = FOURTH._replace(scope="subgraph 1")
    assert len(one_each([refused(FOURTH, "no"), refused(inner, "no")])) == 2


def test_what_is_no_node_stands_alone():
    edges = [
        UnsupportedItem(op="input", where=f"`{name}`", why="no", reason=Reason.IMPOSSIBLE)
        for name in ("a", "b", "a")
    ]
    assert one_each(edges) == edges[:2]
