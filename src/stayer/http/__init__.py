"""The HTTP API: `stayer serve`.

`routes.ROUTES` is the one table of all that can be asked: it drives routing, validation, roles,
the OpenAPI description and the page that explains it. `gate.Gate` is the way in: every request
passes there. What a route does is one function in the module of its noun.
"""
