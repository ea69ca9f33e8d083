// Package bucketof opens the bucket of snapshots with the settings that were given, or with those that
// a Secret has at the moment.
//
// Invariants: only a Secret of kube-system of the system space is read, so that no tenant has a say; it is
// read whenever the bucket is opened, and nothing of it is kept or logged; it cannot name a file of this
// machine. An error of a value in it names its key and never shows the value.
//
// Commands and server may import it. It imports Kubernetes' client alone.
package bucketof
