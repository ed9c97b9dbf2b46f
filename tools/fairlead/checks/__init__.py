"""Tests Fairlead itself: the checkout, fuzzing, chaos, and end-to-end runs."""
