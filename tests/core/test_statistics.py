"""statistics(): scopes, decorators and their report."""

import gc
import threading

import pytest

import madspace
from madspace import statistics

N = 1000


@pytest.fixture(autouse=True)
def no_records():
    """Begin and end without records."""
    statistics.clear()
    yield
    statistics.clear()


def numbers(scope):
    return (
        scope.current_bytes,
        scope.peak_bytes,
        scope.total_bytes,
        scope.current_count,
        scope.peak_count,
        scope.total_count,
    )


def test_a_scope_counts_what_happens_in_it(device):
    device.pool.allocate(N).close()
    with statistics() as scope:
        assert scope.active
        first = device.pool.allocate(N)
        device.pool.allocate(2 * N).close()
        assert numbers(scope) == (N, 3 * N, 3 * N, 1, 2, 2)
        first.close()
        device.pool.allocate(0).close()
    device.pool.allocate(N).close()
    assert not scope.active
    assert numbers(scope) == (0, 3 * N, 3 * N, 0, 2, 2)
    assert f"peak {3 * N}, total {3 * N} in 2" in repr(scope)


def test_scopes_are_nested(device):
    with statistics("outer") as outer:
        kept = device.pool.allocate(N)
        with statistics("inner") as inner:
            device.pool.allocate(5 * N).close()
        device.pool.allocate(2 * N).close()
    assert numbers(inner) == (0, 5 * N, 5 * N, 0, 1, 1)
    assert numbers(outer) == (N, 6 * N, 8 * N, 1, 2, 3)
    kept.close()


def test_a_free_of_what_was_there_before_counts(device):
    buffer = device.pool.allocate(N)
    with statistics() as scope:
        buffer.close()
    assert numbers(scope) == (-N, 0, 0, -1, 0, 0)


def test_every_pool_and_every_end_counts(device):
    pool = madspace.MemoryPool()
    with statistics() as scope:
        buffer = pool.allocate(N)
        tensor = madspace.zeros(N, "u1", device=device)
        buffer.fill(1, stream=device.default_stream)
        assert scope.current_bytes == 2 * N
        del buffer, tensor
        gc.collect()
    assert numbers(scope) == (0, 2 * N, 2 * N, 0, 2, 2)


def test_a_free_behind_other_streams_counts_once(device, stream):
    buffer = device.pool.allocate(N, stream=stream)
    buffer.fill(1, stream=device.default_stream)
    with statistics() as scope:
        buffer.close()
        buffer.close()
    assert scope.current_count == -1


def test_a_decorator_gives_each_call_a_scope(device):
    @statistics("work")
    def work(n, *, keep):
        """Allocate."""
        buffer = device.pool.allocate(n)
        return buffer if keep else None

    kept = work(3 * N, keep=True)
    work(N, keep=False)
    assert work.__name__ == "work"
    assert work.__doc__ == "Allocate."
    assert statistics.records() == {"work": (2, 3 * N, 4 * N, 3 * N, 1, 2, 1)}
    assert statistics.records()["work"].peak_bytes == 3 * N
    kept.close()


def test_a_decorator_without_a_name_takes_the_functions(device):
    @statistics()
    def recursive(depth):
        with device.pool.allocate(N):
            return depth and recursive(depth - 1)

    recursive(2)
    ((name, record),) = statistics.records().items()
    assert name.endswith("recursive")
    assert (record.n_scopes, record.peak_bytes, record.total_count) == (3, 3 * N, 6)


def test_the_report_has_a_line_for_each_name_the_largest_peak_first(device):
    for name, n in (("small", 1), ("large", 5)):
        with statistics(name):
            device.pool.allocate(n * 1000).close()
    with statistics():
        device.pool.allocate(10**6).close()
    header, large, small = statistics.report().splitlines()
    assert header.split()[:2] == ["scope", "calls"]
    assert large.split() == ["large", "1", "5,000", "5,000", "1", "0"]
    assert small.split() == ["small", "1", "1,000", "1,000", "1", "0"]
    statistics.clear()
    assert statistics.report() == header


def test_an_exception_ends_the_scope(device):
    scope = statistics("failing")
    with pytest.raises(KeyError), scope:
        raise KeyError
    assert not scope.active
    assert statistics.records()["failing"].n_scopes == 1


def test_a_scope_may_begin_again_but_not_twice(device):
    scope = statistics()
    with scope:
        device.pool.allocate(N).close()
        with pytest.raises(RuntimeError, match="active already"):
            scope.__enter__()
    with scope:
        pass
    assert numbers(scope) == (0,) * 6


def test_a_scope_that_is_dropped_is_forgotten(device):
    scope = statistics().__enter__()
    del scope
    with statistics() as other:
        device.pool.allocate(N).close()
    assert other.total_count == 1


def test_threads_count_in_the_same_scopes(device):
    def work():
        for _ in range(500):
            device.pool.allocate(N).close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    with statistics() as scope:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (scope.current_bytes, scope.total_bytes, scope.total_count) == (0, 2000 * N, 2000)
    assert N <= scope.peak_bytes <= 4 * N


def test_a_refused_allocation_does_not_count(device):
    pool = madspace.MemoryPool(limit=1)
    with statistics() as scope, pytest.raises(madspace.OutOfMemoryError):
        pool.allocate(2)
    assert numbers(scope) == (0,) * 6


@pytest.mark.parametrize("name", [1, b"x", 1.5], ids=repr)
def test_a_name_is_a_str(name):
    with pytest.raises(TypeError, match=r"name: expected a str, got \w+$"):
        statistics(name)


def test_a_decorator_needs_its_parentheses():
    with pytest.raises(TypeError, match=r"written @madspace.statistics\(\)"):
        statistics(len)
    with pytest.raises(TypeError, match="function: expected a callable, got int"):
        statistics("x")(3)
