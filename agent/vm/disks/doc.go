// Package disks makes the disks of virtual machines from images.
//
// The root file system of an image becomes an ext4 disk once, kept by chain
// id; every machine writes to an overlay of it. An image may carry a disk of
// its own below /disk, which is taken as it is.
//
// Invariants: a base disk is complete or not there, is never written to again,
// and exists once, however many ask for it at a time; it goes only when its
// image is gone and no overlay of it is left; nothing in an image is followed
// out of it, neither a symbolic link nor a backing file.
//
// agent/vm may import it. It imports no Kubernetes code.
package disks
