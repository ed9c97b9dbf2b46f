"""Reads manifests of files and folders as kubectl reads them."""
