# METADATA
# title: The data of placement
# description: |
#   Clusters, customers, applications, prices of transfers and settings. They come from `data.placement`, or else from the
#   ConfigMap `placement` in the namespace `fairlead`.
# schemas:
#   - data.placement: schema.placement_data
package lib.workload_placement.world

import data.lib.values

_source := data.placement if {
	is_object(data.placement)
} else := data.fairlead.placement if {
	is_object(data.fairlead.placement)
} else := {}

# METADATA
# description: All clusters, by name.
clusters := _source.clusters if {
	is_object(_source.clusters)
} else := {}

# METADATA
# description: All customers, by name.
customers := object.get(_source, "customers", {})

# METADATA
# description: Where applications run, by NAMESPACE/NAME.
applications := object.get(_source, "applications", {})

# METADATA
# description: The prices of a GiB from a cluster to another one, by both names.
transfers := _source.transfer if {
	is_object(_source.transfer)
} else := {}

# METADATA
# description: What admins set for all workloads.
settings := object.get(_source, "settings", {})

# METADATA
# description: The share that a move has to save of what the replicas cost where they run.
move_threshold := object.get(settings, "moveThreshold", 0.1)

# METADATA
# description: Why the data have no clusters, as sentences.
problems contains sprintf(
	"OPA has no clusters: bring data.placement.clusters, or the key clusters of ConfigMap fairlead/placement, as JSON%s",
	[suffix],
) if {
	not "clusters" in object.keys(_source)
	suffix := concat("", [text | count(_source) > 0; text := sprintf(" (there is %s)", [values.listed(object.keys(_source))])])
}

problems contains "placement.clusters is no object of clusters by their names" if {
	"clusters" in object.keys(_source)
	not is_object(_source.clusters)
}

# METADATA
# description: What is wrong with the settings, as sentences.
setting_problems contains "placement.settings is no object" if not is_object(settings)

setting_problems contains sprintf("placement.settings has %s: it may have %s", [values.listed(unknown), values.listed(keys)]) if {
	keys := {"minClusters", "maxReplicasPerCluster", "moveThreshold"}
	unknown := object.keys(settings) - keys
	count(unknown) > 0
}

setting_problems contains _wrong_setting("moveThreshold", move_threshold, "it is a number from 0 to below 1") if {
	not _is_share(move_threshold)
}

setting_problems contains _wrong_setting("minClusters", setting, "it is a whole number from 1 to 1000") if {
	setting := settings.minClusters
	not _is_number_of_clusters(setting)
}

setting_problems contains _wrong_setting("maxReplicasPerCluster", setting, expected) if {
	setting := settings.maxReplicasPerCluster
	not values.part_of(1, setting)
	expected := "it is a whole number from 1, or a percentage such as 50%"
}

_wrong_setting(key, value, expected) := sprintf("placement.settings.%s is %s: %s", [key, values.shown(value), expected])

_is_number_of_clusters(value) if values.whole(value) <= 1000

_is_share(value) if {
	is_number(value)
	value >= 0
	value < 1
}
