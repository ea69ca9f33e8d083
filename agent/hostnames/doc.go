// Package hostnames gives the containers of tenants native host names.
//
// A pod with a subdomain has a fully qualified name, which the kubelet
// composes of the pod's namespace and writes to /etc/hosts, and on demand uses
// as the host name. No field of a pod can say otherwise, so this package
// stands between the kubelet and the container runtime: a CRI endpoint that
// hands every call on and, where a tenant's pod or container is about to be
// made, puts the native namespace in place of the composite one.
//
// Invariants: every call is handed on, also one that this version does not
// know; only the two calls that make a sandbox or a container are looked into,
// and nothing is changed for pods of the system space; of files, only the
// kubelet's own hosts file of the pod is written.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package hostnames
