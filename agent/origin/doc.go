// Package podsource shows the kubelet the pods of tenants such that what runs
// in them sees native names.
//
// The kubelet works with composite namespaces ("default.t1"), which it needs
// to tell equally named pods of two tenants apart. Most of what a container
// learns about its namespace the kubelet takes from the pod, so the pod that
// it reads is changed on its way: the transport of its API client rewrites
// lists, watches and gets of pods. Downward API values of metadata.namespace
// become the native namespace and the DNS search path is composed of native
// names. Of Services, those are left out that would take the place of the
// cluster's own "kubernetes" in the environment of a tenant's containers.
//
// The kubelet also learns here of which type of workload a pod is: an
// annotation on its copy says so if the pod is not of containers, and the
// kubelet shows it to the runtimes. A new pod that cannot start on this node,
// because the runtime of its type is not ready or its type is unknown, is kept
// from the kubelet and refused in the API, since nothing of a4s can take part
// in the kubelet's own admission.
//
// Invariants: pods of the system space, except for the type, and everything
// that the kubelet writes pass unchanged, byte by byte; metadata.namespace is
// never touched; the same pod and the same settings always give the same
// result, also in another run, or the kubelet would take a restart for a
// change; what cannot be understood is an error, never passed on with composite
// names in it; a pod that any kubelet has taken, and one that nobody placed
// here, is never refused, whatever becomes of its runtime; a pod is refused
// once.
//
// agent/kubelet may import it. It imports no Kubernetes server code.
package origin
