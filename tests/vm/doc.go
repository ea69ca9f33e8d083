// Package vm boots a Debian guest with systemd and nothing but cgroup v2 in
// QEMU, without KVM, and installs, runs, reboots, upgrades and uninstalls a4s
// in it, and sets its clock. The guest has the architecture of the machine or, with
// ARCH, the other one that a4s is built for. It covers what the other tests cannot where the
// machine itself has cgroup v1 or no systemd.
//
// Invariants: `make test-vm-guest` is the only way to run it, it is slow (about
// fifteen minutes on two cores); image.sh makes everything below the cache
// directory; the guest has no network but its own.
//
// Nothing imports it.
package vm
