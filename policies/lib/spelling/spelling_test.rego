package lib.spelling_test

import data.lib.spelling

test_other_spellings if {
	every name, keys in {
		"certifications": ["Certifications", "cert", "certs", "certification", "certificates", "certifcations", "requiredCertifications"],
		"cordoned": ["cordon", "Cordoned", "isCordoned", "cordonned", "cordoning"],
		"taints": ["taint", "nodeTaints", "TAINTS", "taintss"],
		"capacity": ["Capacity", "maxCapacity", "capacities", "capactiy"],
	} {
		every key in keys { spelling.resembles(key, name) }
	}
}

test_keys_of_their_own if {
	every name, keys in {
		"certifications": ["certifications", "certifiedBy", "specifications", "contact", "c", "cer", ""],
		"jurisdictions": ["jurisdictions", "jurisdictionNotes", "juror"],
		"taints": ["tenants", "paint", "taintedBy"],
		"capacity": ["city", "capability", "cap"],
	} {
		every key in keys { not spelling.resembles(key, name) }
	}
}
