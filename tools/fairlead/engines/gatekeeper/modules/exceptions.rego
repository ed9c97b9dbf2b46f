# Gatekeeper has no exceptions.
package exceptions

by_intent := {}
