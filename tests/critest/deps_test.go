package critest

import (
	// What critest is made of, so that the module knows its dependencies.
	_ "sigs.k8s.io/cri-tools/pkg/benchmark"
	_ "sigs.k8s.io/cri-tools/pkg/validate"
)
