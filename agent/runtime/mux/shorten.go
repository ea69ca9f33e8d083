package mux

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMetadata is how many bytes of annotations, and how many of labels, a sandbox keeps of its pod. The
// kubelet gets all of them in each list of sandboxes, of which it reads 16 MiB: beyond that it knows
// nothing of its pods any more, and the node is not ready. So there is room for a thousand sandboxes.
const maxMetadata = 8 << 10

// kubeletsOwn begins the labels by which the kubelet knows its sandboxes.
const kubeletsOwn = "io.kubernetes."

// shorten leaves out of a sandbox what its pod says of itself beyond maxMetadata, the longest first, and
// reports whether that changed it. What runtimes and network plugins look at is short; the kubelet reads
// all of it from the pod.
func shorten(config *runtimeapi.PodSandboxConfig) bool {
	if config == nil {
		return false
	}
	annotations := fit(config.Annotations)
	return fit(config.Labels) || annotations
}

// fit removes the longest entries until the others have at most maxMetadata bytes.
func fit(of map[string]string) bool {
	total := 0
	for key, value := range of {
		total += len(key) + len(value)
	}
	if total <= maxMetadata {
		return false
	}
	longest := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b)+len(of[b]), len(a)+len(of[a])), strings.Compare(a, b))
	})
	for _, key := range longest {
		if total <= maxMetadata {
			break
		}
		if strings.HasPrefix(key, kubeletsOwn) {
			continue // they are few, and short
		}
		total -= len(key) + len(of[key])
		delete(of, key)
	}
	return true
}
