# The volumes of a workload whose data stay in a cluster when its pods leave it.
package lib.workload_placement.request

import data.lib.values

# METADATA
# description: Whether the workload has volumes that claims keep, by templates of claims or among the volumes of its pods.
has_claims if count(input.resource.spec.volumeClaimTemplates) > 0

has_claims if {
	some volume in pod_spec.volumes
	is_object(volume.persistentVolumeClaim)
}

# METADATA
# description: Whether the workload may move to other clusters without what its volumes hold.
may_leave_volumes if stated["move-volumes"] == "accept"

# METADATA
# description: Why nobody can tell whether it may.
volume_problems contains sprintf("move-volumes is %s: it can only be accept", [values.shown(stated["move-volumes"])]) if {
	stated["move-volumes"] != "accept"
}
