// Package release keeps the data of a server from a4s' that cannot read it: it
// remembers which release has used them last, refuses an older one, and tells when
// a newer one begins with them.
//
// Releases are compared by the minor version of their Kubernetes, which is what
// decides how objects are stored and, by its etcd, how the datastore is.
//
// Invariants: the record is written before a release touches the data, and after
// they were saved. It is not part of a snapshot; a restore writes it anew. Builds
// without a version neither read nor write it.
//
// server and server/datastore/snapshots import it. It imports no Kubernetes code.
package release
