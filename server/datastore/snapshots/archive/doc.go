// Package snapshot is the file that a control plane is saved in and the
// directory that such files are kept in.
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
// Commands and server may import it. It imports no Kubernetes code and no etcd.
package archive
