// Package settings says of every setting of a server whether it may differ at the next start, on other servers and in
// other partitions, and refuses one that may not.
//
// Invariants: each flag of a server is decided about, which a test holds; what is refused is known before anything is
// written or started; a server compares with a record in its own directory, so it needs nobody else to be up. The
// record is part of a snapshot of the server. A setting that the record does not have, because another version wrote
// it, is taken over as it is.
//
// Only server and server/partition import it. It imports no Kubernetes code.
package settings
