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
	some node in (_nodes_of_pods[cluster][namespace] - _fitting(cluster, pool.nodeSelector))
	lacks := _lacks(cluster, node, pool.nodeSelector)
	count(lacks) > 0
	some name
	data.inventory[cluster].pods[namespace][name].spec.nodeName == node
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

# Where the pods of each namespace run: most run on nodes of their pool, so that few have to be looked at one by one.
_nodes_of_pods := {cluster: nodes_by_namespace |
	some cluster, _ in data.inventory
	nodes_by_namespace := {namespace: nodes |
		some namespace, _ in data.inventory[cluster].pods
		nodes := {pod.spec.nodeName | some pod in data.inventory[cluster].pods[namespace]}
	}
}

# The nodes that have these labels.
_fitting(cluster, selector) := intersection({nodes |
	some key, value in selector
	nodes := {node | some node; data.inventory[cluster].nodes[node].metadata.labels[key] == value}
})

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
_pools := {cluster: pools |
	some cluster, namespaces in _nodes_of_pods
	describing := applications.describing(cluster)
	pools := {namespace: pool |
		some namespace, _ in namespaces
		described := data.inventory[describing].namespaces[namespace]
		pool := _pool(object.filter(object.get(described, ["metadata", "labels"], {}), [settings.namespace_label]))
	}
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
notes contains sprintf(
	"%s: no manifest of its namespace %s was given, so the pool of the pods in it is not known",
	[_title(cluster), namespace],
) if {
	some cluster, namespaces in _nodes_of_pods
	describing := applications.describing(cluster)
	some namespace, _ in namespaces
	not data.inventory[describing].namespaces[namespace]
}

notes contains sprintf(
	"%s: no object of its node %s was given, so nobody can tell the pool of that",
	[_title(cluster), node],
) if {
	some cluster, pools in _pools
	nodes := union({_nodes_of_pods[cluster][namespace] | some namespace, _ in pools})
	some node in (nodes - object.keys(object.get(data.inventory, [cluster, "nodes"], {})))
}

_title("") := "manifests"

_title(cluster) := sprintf("cluster %s", [cluster]) if cluster != ""
