"""Conformance: cases that every engine must answer in the same way, and the engines themselves."""
