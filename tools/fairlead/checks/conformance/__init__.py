"""Conformance: the cases that every engine must answer alike, and the engines that are asked."""
