package mux

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/types"
)

// maxMetadata is how many bytes of annotations, and how many of labels, a sandbox or a container keeps of
// what its pod says. The kubelet gets all of them in each list, of which it reads 16 MiB: beyond that it
// knows nothing of its pods any more, and the node is not ready. So there is room for a thousand.
const maxMetadata = 8 << 10

// kubeletsOwn are the labels by which the kubelet knows its sandboxes.
func kubeletsOwn(label string) bool {
	return label == types.KubernetesPodNameLabel || label == types.KubernetesPodNamespaceLabel ||
		label == types.KubernetesPodUIDLabel
}

// shorten leaves out of a sandbox what its pod says of itself beyond maxMetadata, the longest first, and
// returns what. What runtimes and network plugins look at is short; the kubelet reads all of it from the pod.
func shorten(config *runtimeapi.PodSandboxConfig) (left []string) {
	if config == nil {
		return nil
	}
	return append(fit(config.Annotations, func(string) bool { return false }), fit(config.Labels, kubeletsOwn)...)
}

// shortenContainer does so in a request for a container. The kubelet writes what the pod says of ports and
// of the end of the container into it, for a pod that it does not know any more.
func shortenContainer(request []byte) ([]byte, error) {
	if len(request) <= maxMetadata {
		return request, nil // it cannot have more
	}
	var r runtimeapi.CreateContainerRequest
	if err := unmarshal(request, &r); err != nil {
		return nil, err
	}
	if len(fit(r.GetConfig().GetAnnotations(), func(string) bool { return false })) == 0 {
		return request, nil
	}
	return marshal(&r)
}

// fit removes the longest entries but those to keep until the others have at most maxMetadata bytes, and
// returns their names.
func fit(of map[string]string, keep func(key string) bool) (left []string) {
	size := func(key string) int { return len(key) + len(of[key]) + 8 } // as it is encoded
	total := 0
	for key := range of {
		total += size(key)
	}
	if total <= maxMetadata {
		return nil
	}
	longest := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), strings.Compare(a, b))
	})
	for _, key := range longest {
		if total <= maxMetadata {
			break
		}
		if keep(key) {
			continue
		}
		total -= size(key)
		delete(of, key)
		left = append(left, key)
	}
	return left
}
