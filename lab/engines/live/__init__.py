"""Runs cases on a real API server, for the engines that need one."""
