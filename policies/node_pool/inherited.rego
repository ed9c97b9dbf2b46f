# What a DaemonSet's template has of an earlier decision, and so not of its author: whoever applies a manifest without a
# nodeSelector leaves the one that is there. The decision notes what it added on the template itself, so that the note
# comes back with it (`kubectl rollout undo`). Anyone can write a note and gains nothing by it: what it names is
# replaced by today's assignment, or removed.
package node_pool

import data.namespaces

note_key := "fairlead.dev/assigned"

# As JSON, `{"nodeSelector": {...}, "tolerations": [...]}`.
note_text := template_metadata.annotations[note_key] if {
	is_template
	gets_assignment
}

template_metadata := template_of(input.request.object).metadata

# Undefined where there is none that can be read.
_note := json.unmarshal(note_text)

# Comprehensions: OPA builds a rule with keys in the square of their number.
inherited_selector := {key: value |
	some key, value in node_selector
	_note.nodeSelector[key] == value
}

inherited_tolerations := {toleration | some toleration in _note.tolerations}

# What the author asks for.
own_selector := object.remove(node_selector, object.keys(inherited_selector)) if _note

else := node_selector

# Inherited tolerations stay in their place where the pool still gives them.
kept_tolerations := [toleration | some toleration in pod_tolerations; not _outdated(toleration)] if _note

else := pod_tolerations

_outdated(toleration) if {
	toleration in inherited_tolerations
	not toleration in pool_gives.tolerations
}

# Whether the namespace has no pool any more, but the template has what one gave.
pool_withdrawn if {
	note_text
	creates_pods
	_without_pool
}

_without_pool if {
	label_known
	not pool_name
}

# Where nobody can look (kube-mgmt), what is replicated is all there is to know. Never to give up what a pool gave would
# be worse than to give it up while the namespace's next label is on its way: the pods are placed one by one all the
# same.
_without_pool if {
	namespaces.mapped_only
	not label_known
	replicated_label in {"", null}
}
