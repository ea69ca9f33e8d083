// Package qemu runs virtual machines with QEMU and talks to it.
//
// A machine lives in a directory of its own that holds its sockets, its pid
// file and its console. It outlives the process that started it: Attach finds
// it again.
//
// Invariants: a machine runs only after it answered on its control socket and
// is in its control group; QEMU gets no descriptors but those of its taps; the
// command line is a function of Config alone; KVM is used only where it has
// booted a guest.
//
// agent/vm may import it. It imports no Kubernetes code.
package qemu
