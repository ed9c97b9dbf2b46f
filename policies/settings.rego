# METADATA
# title: Settings
# description: |
#   The settings of fairlead.yaml that policies read. These are the defaults. A deployment replaces this module, so edit
#   fairlead.yaml instead.
package settings

# METADATA
# description: The namespace label that names the pool.
namespace_label := "agentpool"

# METADATA
# description: The node label that names a node's pool.
node_label := "agentpool"

# METADATA
# description: How a pod's own nodeSelector is treated - `reject` or `merge`.
pod_selector := "reject"

# METADATA
# description: |
#   How refusals are enforced, by intent: `deny`, or `warn`, which admits the object with a warning. An intent that is
#   not listed denies.
enforcement := {}

# METADATA
# description: The pool of namespaces without the label; empty for none.
default_pool := ""

# METADATA
# description: The closed set of pools, by name, with what each gives and allows; empty if any label value is a pool.
pools := {}

# METADATA
# description: The contact that refusals name; empty for none.
contact := ""

# METADATA
# description: The parameters of each intent, by its package, with the defaults of their schema.
parameters := object.union({}, {"node_pool": {}})

# METADATA
# description: |
#   The parameters of the instances that have another name than their intent, by name; each is by package, as above.
instances := object.union({}, {})

# METADATA
# description: The users and groups whose requests an instance of an intent leaves alone, by the name of the instance.
exempt := {}
