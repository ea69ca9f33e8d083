// Package vm boots a Debian guest with systemd and nothing but cgroup v2 in
// QEMU, without KVM, and runs a4s as a service in it. It covers what the other
// tests cannot where the machine itself has cgroup v1 or no systemd.
//
// Invariants: `make test-vm` is the only way to run it, it is slow (about ten
// minutes on two cores); image.sh makes everything below the cache directory;
// the guest has no network but its own.
//
// Nothing imports it.
package vm
