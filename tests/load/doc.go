// Package load asks a cluster without a pause while a test does something to
// it, and keeps every request that failed.
//
// Invariants: a request that has begun is finished after the end of the load,
// so that the end itself makes nothing fail; nothing is tried again.
//
// Only tests may import it. It imports nothing of k8s.io/kubernetes.
package load
