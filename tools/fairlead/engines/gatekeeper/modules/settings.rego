# METADATA
# title: Settings
# description: The settings that policies read, from the parameters of a constraint.
package settings

_given := input.parameters.fairlead

namespace_label := _given.settings.namespace_label

node_label := _given.settings.node_label

pod_selector := _given.settings.pod_selector

enforcement := _given.settings.enforcement

default_pool := _given.settings.default_pool

pools := _given.settings.pools

contact := _given.settings.contact

exempt := _given.settings.exempt

parameters[_given["package"]] := object.remove(input.parameters, ["fairlead"])
