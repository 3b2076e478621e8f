"""Sweeps over a store: what became of each combination of parameters."""

from __future__ import annotations

from stayer.core.errors import Refused
from stayer.core.flows import sweep
from stayer.core.flows.model import FlowInfo
from stayer.core.flows.sweep import Run
from stayer.core.model import JSON, Filter
from stayer.service.control import flows
from stayer.service.control.compare import find_to_compare, up_to_limit
from stayer.store import ReadStore


def compare(store: ReadStore, id: str, part: str | None = None) -> tuple[FlowInfo, list[Run]]:
    """Get the sweep with this id, and its runs in the order of the combinations. Of another flow,
    the runs of this map, or of its first one.
    """
    flow = flows.get(store, id)
    maps = [each.name for each in flow.parts if each.is_map]
    wanted = part or (maps[0] if maps else None)
    if wanted not in maps:
        there = f"its maps are {', '.join(maps)}" if maps else "it has no map"
        raise Refused(f"flow {id} has no runs {part or ''} that could be compared: {there}")
    tasks = find_to_compare(store, Filter(flow=id))
    return flow, sweep.compare(up_to_limit(task for task in tasks if task.part == wanted))


def record(flow: FlowInfo, runs: list[Run]) -> dict[str, JSON]:
    """Return the sweep and its table as JSON shows them."""
    return {
        "id": flow.id,
        "name": flow.name,
        "state": flow.state,
        "counts": dict[str, JSON](flow.totals.items()),
        "parameters": list[JSON](sweep.varying(runs)),
        "figures": list[JSON](sweep.figures(runs)),
        "metrics": list[JSON](sweep.metrics(runs)),
        "runs": [sweep.run_record(run) for run in runs],
    }
