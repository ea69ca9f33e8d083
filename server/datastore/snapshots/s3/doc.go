// Package s3 keeps snapshots in a bucket of S3-compatible storage.
//
// Invariants: an upload is done when what the server has was read back and is
// the same as the file; a name in the bucket therefore stands for a whole
// snapshot. No error has a secret in it, and each that an operator can cure
// names the flag that does. Nothing waits longer than --etcd-s3-timeout.
//
// Commands and server may import it. It imports no Kubernetes code and no etcd.
package s3
