package netpolicy

import "github.com/a4s-io/a4s/internal/joinapi"

// FilterLine is one line of what a server tells a node for its packet filter:
// whose the addresses of the pod network are, and the policies of its pods. One
// of its fields is set. Each kind of line follows the rules of its own stream,
// and what one tells does not wait for the other.
type FilterLine struct {
	Address *joinapi.PodAddress `json:"address,omitempty"`
	Policy  *Line               `json:"policy,omitempty"`
	// NoPolicies says that the server enforces no network policies.
	NoPolicies bool `json:"noPolicies,omitempty"`
}
