// Package initrd writes initial RAM disks for virtual machines.
//
// A kernel takes several archives, one after the other, for one RAM disk, and
// the last file of a name counts. So the modules of a kernel are an archive that
// belongs to the kernel, and the init program is one that belongs to a4s:
// Assemble joins them, and both always are of the same release as their owners.
//
// Invariant: the same input gives the same bytes.
//
// agent/vm and the scripts import it. It depends on the standard library alone.
package initrd
