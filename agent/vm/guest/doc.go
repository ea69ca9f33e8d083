// Package guest talks to the program that is process 1 in a pod's virtual
// machine (embedded/guest), over a unix socket that QEMU joins to a
// virtio-serial port, and to the guest agent of machines that were booted from
// a disk of their own.
//
// Invariants: losing the connection never changes what runs in the guest; a
// client dials again by itself; output of a container that was not acknowledged
// is delivered again, with its offset, so that none is lost and none need be
// written twice.
//
// agent/vm may import it. It imports neither Kubernetes nor containerd.
package guest
