# What admins set for all workloads, in `settings` of the data.
package lib.workload_placement

_settings := object.get(_source, "settings", {})

# The share that a move has to save of what the replicas cost where they run.
_move_threshold := object.get(_settings, "moveThreshold", 0.1)

_setting_problems contains "placement.settings is no object" if not is_object(_settings)

_setting_problems contains sprintf("placement.settings has %s: it may have %s", [_listed(unknown), _listed(known)]) if {
	is_object(_settings)
	known := {"minClusters", "maxReplicasPerCluster", "moveThreshold"}
	unknown := object.keys(_settings) - known
	count(unknown) > 0
}

_setting_problems contains sprintf("placement.settings.moveThreshold is %s: it is a number from 0 to below 1", [shown(_move_threshold)]) if {
	not _is_share(_move_threshold)
}

_setting_problems contains sprintf("placement.settings.minClusters is %s: it is a whole number from 1 to 1000", [shown(setting)]) if {
	setting := _settings.minClusters
	not _clusters_of(setting)
}

_setting_problems contains problem if {
	setting := _settings.maxReplicasPerCluster
	not _replicas_of(setting)
	problem := sprintf("placement.settings.maxReplicasPerCluster is %s: it is a whole number from 1, or a percentage such as 50%%", [shown(setting)])
}

_is_share(value) if {
	is_number(value)
	value >= 0
	value < 1
}
