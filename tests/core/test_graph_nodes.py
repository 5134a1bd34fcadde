"""Nodes with memory of their own and nodes that choose: what they do, and what they forbid."""

import pytest
from contents import content

from madspace.core.capture import capture
from madspace.core.graph import Graph

N = 1024


def run(graph, stream):
    """Launch a graph once."""
    with graph.instantiate() as executable:
        executable.launch(stream)


def scratch_graph(graph, kernels, words, value):
    """Let a graph fill scratch memory and copy it to `words`; the allocation."""
    scratch = graph.add_alloc(4 * N)
    filled = graph.add_kernel(kernels["ms_test_fill"], 1, 256, scratch.ptr, value, N, after=[scratch])
    copied = graph.add_kernel(kernels["ms_test_copy"], 1, 256, words, scratch.ptr, N, after=[filled])
    graph.add_free(scratch, after=[copied])
    return scratch


def test_memory_of_the_graph(graph, kernels, stream, words):
    scratch = scratch_graph(graph, kernels, words, 3)
    assert scratch.kind == "alloc"
    assert scratch.ptr > 0
    assert graph.node_counts() == {"alloc": 1, "kernel": 2, "free": 1}
    executable = graph.instantiate()
    for _ in range(2):
        words.fill(0)
        executable.launch(stream)
        assert content(words) == 3


def test_memory_must_be_freed_in_the_graph(graph, kernels, words):
    node = graph.add_alloc(8)
    with pytest.raises(ValueError, match="expected every allocation to be freed, got 1 without"):
        graph.instantiate()
    graph.add_free(node)
    graph.instantiate().close()


def test_what_is_no_allocation_cannot_be_freed(device, graph, words):
    node = graph.add_alloc(8)
    graph.add_free(node)
    for wrong in (node, graph.add_fill(words, 1), Graph(device).add_alloc(8)):
        with pytest.raises(ValueError, match=r"allocation: expected a node of add_alloc\(\)"):
            graph.add_free(wrong)


@pytest.mark.parametrize(("nbytes", "error"), [(0, ValueError), ("8", TypeError)], ids=repr)
def test_an_allocation_has_a_size(graph, nbytes, error):
    with pytest.raises(error):
        graph.add_alloc(nbytes)
    assert graph.n_nodes == 0


def test_such_a_graph_is_neither_copied_nor_run_twice(device, graph, kernels, words):
    scratch_graph(graph, kernels, words, 3)
    with pytest.raises(ValueError, match="clone: expected a graph without allocation"):
        graph.clone()
    with pytest.raises(ValueError, match="other: expected a graph without allocation"):
        Graph(device).add_child(graph)
    executable = graph.instantiate()
    with pytest.raises(ValueError, match="another open GraphExec"):
        graph.instantiate()
    executable.close()
    graph.instantiate().close()


@pytest.mark.parametrize("start", [1, 0])
def test_a_choice(graph, kernels, stream, words, start):
    condition = graph.add_condition(start)
    first = graph.add_fill(words, 1)
    node = graph.add_if(condition, after=[first])
    (body,) = node.bodies
    assert node.kind == "conditional"
    assert body.device is graph.device
    body.add_kernel(kernels["ms_test_fill"], 1, 256, words, 7, N)
    assert (body.n_nodes, graph.n_nodes) == (1, 2)
    run(graph, stream)
    assert content(words) == (7 if start else 0x01010101)


@pytest.mark.parametrize("start", [5, 0])
def test_a_choice_of_two(graph, stream, words, start):
    then, otherwise = graph.add_if(graph.add_condition(start), otherwise=True).bodies
    then.add_fill(words, 1)
    with capture(stream, into=otherwise):
        words.fill(2)
    run(graph, stream)
    assert content(words) == (0x01010101 if start else 0x02020202)


def test_a_loop_that_is_not_entered(graph, stream, words):
    (body,) = graph.add_while(graph.add_condition(0)).bodies
    body.add_fill(words, 1)
    run(graph, stream)
    assert content(words) == 0


def test_a_loop_runs_until_its_kernel_ends_it(fake, graph, kernels, stream, words):
    rounds = []

    def count(params, grid, block):
        rounds.append(1)
        fake.set_condition(condition, 3 - len(rounds))

    fake.register("ms_test_spin", count, sizes=(8,))
    condition = graph.add_condition(1)
    (body,) = graph.add_while(condition).bodies
    body.add_kernel(kernels["ms_test_spin"], 1, 1, 0, after=[body.add_fill(words, 9)])
    run(graph, stream)
    fake.register("ms_test_spin", lambda params, grid, block: None, sizes=(8,))
    assert len(rounds) == 3
    assert content(words) == 0x09090909


def test_a_kernel_may_set_the_condition_first(fake, graph, kernels, stream, words):
    condition = graph.add_condition()
    fake.register("ms_test_spin", lambda params, grid, block: fake.set_condition(condition, 1), sizes=(8,))
    setter = graph.add_kernel(kernels["ms_test_spin"], 1, 1, 0)
    (body,) = graph.add_if(condition, after=[setter]).bodies
    body.add_fill(words, 9)
    run(graph, stream)
    fake.register("ms_test_spin", lambda params, grid, block: None, sizes=(8,))
    assert content(words) == 0x09090909


def test_bodies_nest(graph, stream, words):
    (outer,) = graph.add_if(graph.add_condition(1)).bodies
    (inner,) = outer.add_if(outer.add_condition(1)).bodies
    inner.add_fill(words, 4)
    run(graph, stream)
    assert content(words) == 0x04040404


def test_a_body_is_a_part_of_its_graph(device, graph, words):
    (body,) = graph.add_if(graph.add_condition(1)).bodies
    for use, match in (
        (body.clone, "clone"),
        (body.instantiate, "graph"),
        (body.close, "close"),
        (lambda: Graph(device).add_child(body), "other"),
        (lambda: body.add_alloc(8), "add_alloc"),
    ):
        with pytest.raises(ValueError, match=f"{match}: expected a .*graph, got the body"):
            use()
    graph.close()
    with pytest.raises(ValueError, match="graph: expected an open graph"):
        body.add_fill(words, 1)
