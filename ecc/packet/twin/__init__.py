"""The packet engine in plain Python, written to be read: the same events, numbers and order as the C engine."""

from ecc.packet.twin.engine import PythonEngine
from ecc.packet.twin.events import Kind, Twin, build_twin

__all__ = ["Kind", "PythonEngine", "Twin", "build_twin"]
