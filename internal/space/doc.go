// Package space owns the names of tenants and of what lives in their spaces:
// the native form that a tenant sees, the composite form that everything
// inside the control plane and on the nodes works with, and the key under
// which etcd holds it (multi-tenancy seed, "ETCD Key Paths").
//
//	native       composite          stored
//	t1/default   default.t1         /registry/pods/t1/default/web
//	t1/pv1       pv1.t1.tenant      /registry/persistentvolumes/t1/pv1
//	system/x     x                  as plain Kubernetes stores it
//
// On a node that has pods of several tenant partitions, names of the system space of
// a partition are qualified (partitions.go).
//
// Invariants: every function is pure; composing and splitting are inverse to
// each other; two different native names never share a composite name or a
// stored key. A native namespace is a DNS label and has no dot, so a dot alone
// marks a composite one; cluster-scoped names may have dots, so those of
// tenants end in the reserved ".tenant".
//
// Everything may import it; it imports nothing of Kubernetes' server.
package space
