package localstorage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// The library adds the core API to client-go's scheme whenever its controller is made, which
// is when this server begins to lead. The scheme has it, all clients of the process read the
// scheme at that time, and it has no lock: one in a hundred starts ended with "concurrent map
// read and map write". So what adds it leaves that scheme alone. As the variables in
// server/controlplane/apiserver, it is set before anything runs and never again.
func init() {
	add := corev1.AddToScheme
	corev1.AddToScheme = func(s *runtime.Scheme) error {
		if s == scheme.Scheme {
			return nil
		}
		return add(s)
	}
}
