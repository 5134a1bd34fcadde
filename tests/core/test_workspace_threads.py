"""Workspaces that several threads use, each on its own stream."""

import threading

import scratch_op
from raw_driver import Block

from madspace.core.stream import Stream

N = scratch_op.N


def test_calls_of_many_threads_do_not_mix(device, workspace):
    n_threads, n_rounds = 4, 200
    streams = [Stream(device) for _ in range(n_threads)]
    blocks = [Block() for _ in range(n_threads)]
    barrier, wrong = threading.Barrier(n_threads), []

    def work(i):
        barrier.wait()
        for n in range(n_rounds):
            value = (i + n) % 251 + 1
            scratch_op.run(workspace, value, streams[i], int(blocks[i].ptr))
            streams[i].synchronize()
            found = set(blocks[i].read(streams[i]).tolist())
            if found != {value * 0x01010101}:
                wrong.append((value, found))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for block in blocks:
        block.free()


def test_growth_waits_for_a_call_in_another_thread(device, workspace, stream):
    begun, grown = threading.Event(), threading.Event()
    workspace.before(stream)

    def grow():
        begun.set()
        workspace.require(2 * N)
        grown.set()

    thread = threading.Thread(target=grow)
    thread.start()
    begun.wait()
    assert not grown.wait(0.05)
    workspace.after(stream)
    thread.join()
    assert workspace.nbytes == 2 * N


def test_a_call_that_waited_for_growth_uses_the_new_memory(device, workspace, stream, block):
    other = Stream(device)
    workspace.before(stream)
    threads = [
        threading.Thread(target=workspace.require, args=(2 * N,)),
        threading.Thread(target=scratch_op.run, args=(workspace, 9, other, int(block.ptr))),
    ]
    for thread in threads:
        thread.start()
    workspace.after(stream)
    for thread in threads:
        thread.join()
    assert scratch_op.content(int(block.ptr)) == 9
    assert workspace.nbytes == 2 * N
