"""The worker on a node: takes tasks, renews the lease, reports. Its keepers run the processes.

It may crash, be killed or be upgraded at any time: running tasks don't notice, and the next worker
on the same state directory adopts them.
"""
