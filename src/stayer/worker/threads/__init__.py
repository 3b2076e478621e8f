"""Short functions in threads: `python -m stayer.worker.threads FD LEASE PARENT`, from a worker.

Two processes. The guard does nothing but die in time: it has a kernel timer set to the end of the
lease, sets it anew when the lease is renewed, and cannot be held up by what tasks do. The pool, its
child, dies with it; it has the threads, the event loop and a connection to the store of its own.
The worker beats for them, and takes back what they held when they are gone.
"""
