// Package shares shows directories and files of the host to a virtual machine.
//
// One virtiofsd per machine serves a directory, below which host paths are
// bind mounted and unmounted while the machine runs.
//
// Invariants: the guest sees what was added and nothing else; it can write to
// nothing but that, so it cannot lay a symbolic link into the way of the host;
// what is added read-only cannot be written through the share, nor what is
// mounted below it; mounts below the directory are the only record of what was
// added, so a restart of this process loses nothing; nothing is deleted below
// a mount.
//
// agent/vm may import it. It imports no Kubernetes code.
package shares
