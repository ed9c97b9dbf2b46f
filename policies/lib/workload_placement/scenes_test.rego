package lib.workload_placement.scenes_test

import data.lib.workload_placement.decision as placement

cluster(jurisdiction, changes) := object.union(
	{
		"jurisdiction": jurisdiction,
		"location": "on-prem",
		"certifications": ["iso27001", "pci"],
		"cordoned": false,
		"price": {"cpu": 0.03, "memory": 0},
		"capacity": {"cpu": "8", "memory": "32Gi"},
	},
	changes,
)

clusters := {
	"berlin": cluster("de", {}),
	"munich": cluster("de", {"certifications": ["iso27001"]}),
	"paris": cluster("fr", {}),
	"public-de": cluster("de", {"location": "public"}),
	"ohio": cluster("us", {}),
}

customers := {
	"acme": {"jurisdictions": ["de", "fr"], "certifications": ["pci"]},
	"plain": {"jurisdictions": ["de"]},
	"nowhere": {"jurisdictions": [], "certifications": ["none"]},
}

world := {"clusters": clusters, "customers": customers}

# The world with other data of one cluster.
with_cluster(name, cluster) := object.union(world, {"clusters": {name: cluster}})

workload(says) := {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": says}}

# The answer about a workload with these annotations.
answer(says, world) := decided(workload(says), world)

decided(resource, world) := answer if {
	answer := {
		"weights": placement.weights,
		"errors": placement.errors,
		"explanation": placement.explanation,
	} with input as {"resource": resource}
		with data.placement as world
}

# Clusters by what a core hour and a GiB hour cost there.
priced(prices) := {
	"clusters": {name: {"jurisdiction": "de", "location": "on-prem", "price": price} | some name, price in prices},
	"customers": customers,
}

cheap_medium_dear := priced({
	"cheap": {"cpu": 0.01, "memory": 0.001},
	"dear": {"cpu": 0.03, "memory": 0.003},
	"medium": {"cpu": 0.0105, "memory": 0.00105},
})

with_settings(settings) := object.union(cheap_medium_dear, {"settings": settings})

# A workload of pods with one core and a GiB each.
of_replicas(number, says) := {
	"kind": "Deployment",
	"metadata": {"namespace": "shop", "name": "web", "annotations": object.union({"customer": "plain"}, says)},
	"spec": {"replicas": number, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}},
}

# The replicas of each cluster.
divided(number, says, world) := {name: preference.weight | some name, preference in answer.weights} if {
	answer := decided(of_replicas(number, says), world)
	answer.errors == {}
}

running_in(weights) := {"federation.kubernetes.io/replica-set-preferences": json.marshal({"clusters": {name: {"weight": weight} |
	some name, weight in weights
}})}

sending(flows) := {"traffic": json.marshal(flows)}

near_and_far := object.union(cheap_medium_dear, {
	"transfer": {
		"cheap": {"medium": 0.1, "dear": 0.05, "abroad": 1},
		"medium": {"cheap": 0.1, "dear": 0.1, "abroad": 0.02},
		"dear": {"cheap": 0.1, "medium": 0.1, "abroad": 0.02},
	},
	"applications": {
		"shop/db": {"clusters": {"dear": {"weight": 3}}},
		"shop/cache": {"clusters": ["dear", "medium"]},
		"shop/nowhere": {"clusters": []},
		"shop/wrong": {"clusters": 5},
	},
})

traffic_errors(traffic, world) := problems if {
	answer := decided(of_replicas(2, {"traffic": traffic}), world)
	answer.weights == {}
	object.keys(answer.errors) == {"traffic"}
	problems := concat("; ", answer.errors.traffic)
}

spread_errors(number, says, world) := problems if {
	answer := decided(of_replicas(number, says), world)
	answer.weights == {}
	object.keys(answer.errors) == {"spread"}
	problems := concat("; ", answer.errors.spread)
}

pods := {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}}]}

metadata := {"annotations": {"customer": "plain"}}

running(replicas, requests) := decided(
	{"kind": "Deployment", "metadata": metadata, "spec": {
		"replicas": replicas,
		"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": requests}}]}},
	}},
	world,
)

weighing(weights) := {"replica-set-preferences": {"clusters": {name: {"weight": weight} | some name, weight in weights}}}

changed(cluster) := {
	"clusters": object.union(object.remove(clusters, ["berlin"]), {"berlin": cluster}),
	"customers": customers,
}

asking(preferences) := answer({"customer": "acme", "replica-set-preferences": preferences}, world)

refused(preferences) := problems if {
	answer := asking(preferences)
	answer.weights == {}
	object.keys(answer.errors) == {"replica-set-preferences"}
	problems := concat("; ", answer.errors["replica-set-preferences"])
}

labelled := with_cluster("munich", {"region": "south", "labels": {"tier": "7", "location": "public", "pci": "true"}})

selecting(requirements, world) := selecting_by(json.marshal(requirements), world)

selecting_by(text, world) := answer(
	{"customer": "plain", "federation.alpha.kubernetes.io/cluster-selector": text},
	world,
)

# Like priced, with a cluster that the customer may not use.
priced_abroad(prices, price) := object.union(priced(prices), {"clusters": {"abroad": {
	"jurisdiction": "us",
	"location": "on-prem",
	"price": price,
}}})
