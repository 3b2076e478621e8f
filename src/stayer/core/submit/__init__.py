"""Submissions: options, checks, names, and JSON that is accepted as it is."""
