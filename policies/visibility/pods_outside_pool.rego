# METADATA
# title: Pods outside their pool
# description: |
#   Which pods run on a node that is not of the pool of their namespace, whoever put them there: mirror pods and pods of
#   DaemonSets as well. The pool is the one that a new pod of the namespace would get today.
# schemas:
#   - input: {type: object, properties: {}}
# custom:
#   columns: [cluster, namespace, name, pool, node, lacks]
package visibility.pods_outside_pool

import data.lib.applications
import data.settings

# METADATA
# description: A row for each pod.
rows contains row if {
	some cluster, pools in _pools
	some namespace, pool in pools
	some name
	node := data.inventory[cluster].pods[namespace][name].spec.nodeName
	lacks := _lacks(cluster, node, pool.nodeSelector)
	count(lacks) > 0
	not _has_ended(cluster, namespace, name)
	row := {
		"cluster": cluster,
		"namespace": namespace,
		"name": name,
		"pool": pool.pool,
		"node": node,
		"lacks": lacks,
	}
}

# A helper, because a pod may have no status.
_has_ended(cluster, namespace, name) if {
	data.inventory[cluster].pods[namespace][name].status.phase in {"Failed", "Succeeded"}
}

# The labels of the pool that the node lacks; undefined if the node is not known.
_lacks(cluster, node, selector) := [label |
	some key, value in selector
	object.get(labels, key, null) != value
	label := sprintf("%s=%s", [key, value])
] if {
	labels := object.get(data.inventory[cluster].nodes[node], ["metadata", "labels"], {})
}

# Without a pool there is none.
_pools[cluster][namespace] := _pool(labels) if {
	some cluster, _ in data.inventory
	some namespace, _ in data.inventory[cluster].pods
	described := applications.namespaces(cluster, namespace)[namespace]
	labels := object.filter(object.get(described, ["metadata", "labels"], {}), {settings.namespace_label})
}

# What the policy of node pools says of a new pod in a namespace with these labels: it is asked once for equal labels.
_pool(labels) := pool if {
	pool := data.node_pool.placement with input as _creation
		with data.kubernetes.namespaces as {"pods": {"metadata": {"labels": labels}}}
}

_creation := {"request": {
	"operation": "CREATE",
	"namespace": "pods",
	"kind": {"group": "", "version": "v1", "kind": "Pod"},
	"object": {"metadata": {"name": "new", "namespace": "pods"}, "spec": {"containers": []}},
}}

# METADATA
# description: What the answer does not rest upon.
notes contains sprintf("%s: no manifest of its namespace %s was given, so the pool of the pods in it is not known", [_title(cluster), namespace]) if {
	some cluster, _ in data.inventory
	some namespace, _ in data.inventory[cluster].pods
	count(applications.namespaces(cluster, namespace)) == 0
}

notes contains sprintf("%s: no object of its node %s was given, so nobody can tell the pool of that", [_title(cluster), node]) if {
	some cluster, pools in _pools
	some namespace, _ in pools
	node := data.inventory[cluster].pods[namespace][_].spec.nodeName
	not data.inventory[cluster].nodes[node]
}

_title("") := "manifests"

_title(cluster) := sprintf("cluster %s", [cluster]) if cluster != ""
