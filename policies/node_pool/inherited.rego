# What an earlier decision, and not the author, added to a DaemonSet's template. Applying a manifest without a
# nodeSelector keeps the nodeSelector that is there, so a decision has to know which parts are its own. It notes them in
# an annotation of the template itself, so that `kubectl rollout undo` restores the note with the template. Anyone can
# write such a note, but gains nothing: what it names is replaced by the current assignment, or removed.
package node_pool

import data.lib.pod_specs
import data.namespaces

note_key := "fairlead.dev/assigned"

# JSON of the form `{"nodeSelector": {...}, "tolerations": [...]}`.
note_text := template_metadata.annotations[note_key] if is_daemon_set

template_metadata := pod_specs.template_of(input.request.object).metadata

# Undefined if there is no readable note.
_note := json.unmarshal(note_text)

# Comprehensions, because the time that OPA takes for a rule with keys grows with the square of their number.
inherited_selector := {key: value |
	some key, value in node_selector
	_note.nodeSelector[key] == value
}

inherited_tolerations := {toleration | some toleration in _note.tolerations}

# The nodeSelector that the author set.
own_selector := node_selector if not note_text

else := object.remove(node_selector, object.keys(inherited_selector))

# An inherited toleration keeps its position if the pool still gives it.
kept_tolerations := pod_tolerations if not note_text

else := [toleration | some toleration in pod_tolerations; not _outdated(toleration)]

_outdated(toleration) if {
	toleration in inherited_tolerations
	not toleration in pool_gives.tolerations
}

# Whether the namespace no longer has a pool, but the template still has what a pool gave it.
pool_withdrawn if {
	note_text
	applies
	_without_pool
}

_without_pool if {
	label_known
	not pool_name
}

# Without lookups (kube-mgmt), the replicated label has to do, although a new one may be on its way. Removing the
# assignment too early does little harm, because each pod is placed anyway. Never removing it would be worse.
_without_pool if {
	namespaces.mapped_only
	not label_known
	replicated_label in {"", null}
}
