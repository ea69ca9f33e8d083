// Package child runs a part of the node as a process of its own, which a4s
// supervises: containerd and the VM runtime.
//
// Invariants: the child ends with a4s, by SIGTERM, however a4s ended; it gets
// no signal that was meant for a4s, not its token, and no word of its
// conversation with systemd. What it ran itself (shims, virtual machines) goes
// on without it.
//
// Only agent's packages may import it. It imports no Kubernetes code.
package child
