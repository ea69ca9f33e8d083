// Package encryption encrypts Secrets at rest: it makes the configuration that
// the API server reads again whenever it changes, and rewrites in the datastore
// the Secrets that are stored with another key.
//
// With embedded etcd the configuration is a replicated document of the cluster,
// and the file of each server follows it; with other datastores the file is all there
// is. Only the type storage knows which of the two it is.
//
// Invariants: each change is one atomic write, compared with what was there,
// so that whatever was interrupted goes on from there; the next one is made
// when the API of every server works with the last; so a server can always read
// what another one writes, and what the datastore has at one revision is enough
// for the Secrets of that revision; a key leaves the configuration only when no
// API server writes with it and no Secret needs it; the datastore has no key in
// clear; a damaged file is replaced by nothing but what the datastore has; the
// file has mode 0600.
//
// Only server may import it. Of Kubernetes it imports the transformers that
// the API server itself encrypts with, and nothing of k8s.io/kubernetes.
package encryption
