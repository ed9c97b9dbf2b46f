"""Writes the settings that do what policies of other programs do: Gatekeeper, Kyverno, and the
admission plugins PodNodeSelector and PodTolerationRestriction."""
