"""The brain on a node: takes tasks, keeps the lease, reports; its keepers do the handiwork.

It may crash, be killed or be upgraded at any time: running tasks don't notice, and the next worker
on the same state directory adopts them.
"""
