// Package archive is the file that a control plane is saved in, and the places
// that such files are kept in: a directory, and a bucket of S3-compatible storage.
//
// A snapshot is a tar archive, compressed with zstd or not. Its first member is
// a manifest with the checksum of every other member, its second the checksum
// of the manifest; then come the backend file of etcd and the files of the
// server directory that a start needs: certificates, tokens, keys.
//
// Invariants: a name in the directory stands for a whole file that was read
// back and found right; a failed or killed save leaves no such name; a file
// has mode 0600, because whoever reads it is administrator of the cluster.
// Read never hands out a byte of a member as complete before its checksum has
// been compared, and a caller that must not begin with a damaged file reads it
// twice.
//
// An upload is done when what the bucket has was read back and is the same as the
// file; a name in the bucket therefore stands for a whole snapshot, too. No error
// has a secret in it, and each that an operator can cure names the flag that does.
// Nothing waits longer than --etcd-s3-timeout.
//
// Commands and server may import it. It imports no Kubernetes code and no etcd.
package archive
