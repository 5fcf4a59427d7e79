"""Formats of other programs: qlog, congestion headers as bytes, files of HPCC's simulator."""
