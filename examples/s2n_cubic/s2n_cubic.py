"""CUBIC of the crate s2n-quic-core as a protocol, after `cargo build --release` in this folder.

ecc conform s2n_cubic.py:S2nCubic --case cubic
"""

from dataclasses import dataclass
from pathlib import Path

from ecc.models import controller

Library = controller.load(Path(__file__).parent / "target" / "release" / "libs2n_cubic.so")


@dataclass(frozen=True)
class S2nCubic(Library):
    """CUBIC of s2n-quic; its constants are those of RFC 8312, which the crate does not let a user change."""

    transport: str = "quic"
    C, beta = 0.4, 0.7
