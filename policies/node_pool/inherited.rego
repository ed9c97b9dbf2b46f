# What a DaemonSet's template has of an earlier decision, and so not of its author: whoever applies a manifest without a
# nodeSelector leaves the one that is there. The decision notes what it added on the template itself, so that the note
# comes back with it (`kubectl rollout undo`). Anyone can write a note and gains nothing by it: what it names is
# replaced by today's assignment, or removed.
package node_pool

import data.namespaces

_note_key := "fairlead.dev/assigned"

# As JSON, `{"nodeSelector": {...}, "tolerations": [...]}`.
_note_text := _template_metadata.annotations[_note_key] if {
	_is_template
	_enforced
}

_template_metadata := _spec_and_metadata(input.request.object).metadata

# Undefined where there is none that can be read.
_note := json.unmarshal(_note_text)

# Comprehensions: OPA builds a rule with keys in the square of their number.
_inherited_selector := {key: value |
	some key, value in _selector
	_note.nodeSelector[key] == value
}

_inherited_tolerations := {toleration | some toleration in _note.tolerations}

# What the author asks for.
_own_selector := object.remove(_selector, object.keys(_inherited_selector)) if _note

else := _selector

# Inherited tolerations stay in their place where the pool still gives them.
_kept_tolerations := [toleration | some toleration in _tolerations; not _outdated(toleration)] if _note

else := _tolerations

_outdated(toleration) if {
	toleration in _inherited_tolerations
	not toleration in _given.tolerations
}

# Whether the namespace has no pool any more, but the template has what one gave.
_withdrawn if {
	_note_text
	_comes
	_without_pool
}

_without_pool if {
	_known
	not _pool
}

# Where nobody can look (kube-mgmt), what is replicated is all there is to know. Never to give up what a pool gave would
# be worse than to give it up while the namespace's next label is on its way: the pods are placed one by one all the same.
_without_pool if {
	namespaces.mapped_only
	not _known
	_held in {"", null}
}
