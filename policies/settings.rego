# METADATA
# title: Settings
# description: |
#   What fairlead.yaml says. These are the defaults; deployment renders this module again, so edit fairlead.yaml instead.
package settings

# METADATA
# description: The namespace label that names the pool.
namespace_label := "agentpool"

# METADATA
# description: The node label that tells pools apart.
node_label := "agentpool"

# METADATA
# description: What happens to a pod's own nodeSelector - `reject` or `merge`.
pod_selector := "reject"

# METADATA
# description: |
#   What happens to a refusal, by intent: `deny`, or `warn`, which admits the request with a warning. An intent that is
#   not listed denies.
enforcement := {}

# METADATA
# description: The pool of namespaces without the label; empty for none.
default_pool := ""

# METADATA
# description: The closed set of pools, name to what it gives and allows; empty where any label value is a pool.
pools := {}

# METADATA
# description: Whom messages tell to ask; empty for nobody.
contact := ""
