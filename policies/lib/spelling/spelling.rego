# METADATA
# title: Misspelt keys
# description: Which key of data was meant by one that no rule reads.
package lib.spelling

# METADATA
# description: |
#   Whether `key` looks like another spelling of `name`, which is in lower case: in capitals (`Taints`), shorter (`cert`,
#   `certs`), with words before it (`requiredCertifications`), or with up to two letters more or less, and the same beginning
#   or end (`certificates`).
resembles(key, name) if {
	key != name
	_is_close(lower(key), name)
}

_is_close(key, name) if key == name

_is_close(key, name) if {
	stem := trim_suffix(key, "s")
	count(stem) >= 4
	startswith(name, stem)
}

_is_close(key, name) if endswith(key, name)

_is_close(key, name) if {
	abs(count(key) - count(name)) <= 2
	substring(key, 0, 1) == substring(name, 0, 1)
	_shares_an_end(key, name, max([5, count(name) - 7]))
}

_shares_an_end(key, name, letters) if startswith(key, substring(name, 0, letters))

_shares_an_end(key, name, letters) if endswith(key, substring(name, count(name) - letters, -1))
