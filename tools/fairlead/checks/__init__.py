"""Tests Fairlead itself: the checkout, conformance to the contract, fuzzing, chaos, and end-to-end
runs."""
