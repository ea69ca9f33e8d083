package serving

import (
	"regexp"
	"sync"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// Upstream's validators keep each pattern that a value was ever compared with, compiled, for as long as the process
// lives. A tenant that changes its CRD again and again would fill the memory of all. There is no other way to what
// they keep: TestPatternsAreForgotten fails if upstream calls it something else.
var (
	//go:linkname cacheMutex k8s.io/kube-openapi/pkg/validation/validate.cacheMutex
	cacheMutex *sync.Mutex
	//go:linkname reDict k8s.io/kube-openapi/pkg/validation/validate.reDict
	reDict atomic.Value // of map[string]*regexp.Regexp
)

// mostLeft is how many steps of patterns are kept of CRDs that are gone: 42 MB.
const mostLeft = 1_000_000

// patterns forgets those of CRDs that are gone, all at once: those of others are compiled when they are next used.
type patterns struct{ left atomic.Int64 }

// became is told what a CRD was, and what it is now.
func (p *patterns) became(was, now *apiextensionsv1.CustomResourceDefinition) {
	if was == nil || now != nil && now.Generation == was.Generation && now.UID == was.UID {
		return
	}
	if p.left.Add(crd.SizeOf(was).Patterns) < mostLeft {
		return
	}
	p.left.Store(0)
	cacheMutex.Lock()
	defer cacheMutex.Unlock()
	reDict.Store(map[string]*regexp.Regexp{})
}
