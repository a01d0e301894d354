"""Matrix products with kernels of their own: what is fused after them, and what is not."""

from __future__ import annotations

from gla import dtypes
from gla.ir.builder import apply
from gla.ir.functions import reduce
from gla.ir.functions.linear import matmul
from gla.ir.graph import Graph, new_input
from gla.ir.types import Type
from gla.passes.pipeline import run
from gla.plan.planner import plan
from gla.plan.steps import KernelStep, MatmulStep


def array(*shape, dtype=dtypes.float32):
    return new_input(Type(dtype, shape), "x")


def steps(inputs, *results, products=True):
    return plan(run(Graph(tuple(inputs), tuple(results))), products=products).steps


def layer(w, h, b):
    return apply("maximum", apply("add", matmul(w, h), b), 0)


def test_bias_and_activation_are_part_of_the_product():
    w, v, h, b = array(256, 256), array(256, 256), array(256, 16), array(256, 1)
    out = layer(v, layer(w, h, b), b)
    made = steps((w, v, h, b), out)
    assert [type(s) for s in made] == [KernelStep, KernelStep]
    assert all(isinstance(s, KernelStep) and s.region.product is not None for s in made)


def test_the_library_computes_all_where_products_have_no_kernels():
    w, h, b = array(256, 256), array(256, 16), array(256, 1)
    assert [type(s) for s in steps((w, h, b), layer(w, h, b), products=False)] == [MatmulStep, KernelStep]


def test_large_products_are_the_librarys():
    a, b = array(4096, 4096), array(4096, 4096)
    assert [type(s) for s in steps((a, b), matmul(a, b))] == [MatmulStep]


def test_a_product_that_leaves_the_plan_is_stored_beside_its_epilogue():
    a, b = array(64, 64), array(64, 64)
    product = matmul(a, b)
    (step,) = steps((a, b), product, apply("exp", product))
    assert isinstance(step, KernelStep) and len(step.region.outputs) == 2


def test_a_reduction_of_a_product_is_a_kernel_of_its_own():
    a, b = array(64, 64), array(64, 64)
    made = steps((a, b), reduce.sum(matmul(a, b), axis=1))
    assert [isinstance(s, KernelStep) and s.region.product is not None for s in made] == [True, False]


def test_a_square_product_is_not_written_over_its_operand():
    x, a = array(64, 64), array(64, 64)
    graph = Graph((x, a), (), ((x, matmul(a, x)),))
    made = plan(run(graph), products=True)
    product = next(s for s in made.steps if isinstance(s, KernelStep) and s.region.product is not None)
    assert not set(product.reads) & set(product.writes)


def test_the_plan_does_not_say_that_a_fused_product_is_stored():
    w, h, b = array(256, 256), array(256, 16), array(256, 1)
    graph = run(Graph((w, h, b), (layer(w, h, b),)))
    assert not any("matrix library" in note for note in plan(graph, products=True).notes)
    assert any("matrix library" in note for note in plan(graph).notes)
