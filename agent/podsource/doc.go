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
// Invariants: pods of the system space and everything that the kubelet writes
// pass unchanged, byte by byte; metadata.namespace is never touched; the same
// pod and the same settings always give the same result, also in another run,
// or the kubelet would take a restart for a change; what cannot be understood
// is an error, never passed on with composite names in it.
//
// agent/kubelet may import it. It imports no Kubernetes server code.
package podsource
