# METADATA
# title: Intents
# description: The one intent of this template, and the requests that it has a say in.
package intents

import data.PACKAGE

_given := input.parameters.fairlead

names contains _given.instance

requests := _given.requests

# Gatekeeper sends whole objects.
refusals := {}

# A function hides the type of the decision: OPA would find that the warnings of an intent without any are always none,
# and reject what main.rego does with each of them.
decisions[_given.instance] := object.union({}, PACKAGE.decision)

audits[_given.instance] := ""
