"""The Python door: submitting tasks, following them, working on them in one's own process."""

from stayer.client.client import Client
from stayer.client.flow import FlowHandle
from stayer.client.handle import TaskHandle
from stayer.client.listener import Listener
from stayer.client.processor import Processor
from stayer.client.queue import Queue
from stayer.client.submit import DuplicateWarning

__all__ = [
    "Client",
    "DuplicateWarning",
    "FlowHandle",
    "Listener",
    "Processor",
    "Queue",
    "TaskHandle",
]
