// Package network connects virtual machines to the pod network.
//
// Every pod has a network namespace, as pods of containers have, which the
// node's CNI plugins set up. What arrives at the pod's interface is redirected
// to a tap device and back, so that the guest is the pod: it has the hardware
// address, the IP addresses and the routes that the plugins gave the interface.
//
// Invariants: a guest is heard with the addresses of its pod alone, which is
// how tenants are distinguished, whatever root in it does; namespaces are pinned
// in this package's own directory and nowhere else; an attachment is recorded
// before anything of it is made, so that Teardown can undo all of it after a
// crash at any point; the CNI library is called with the same arguments and
// record directory that containerd uses, so that who reads these records sees
// pods of both kinds.
//
// agent/vm may import it. It imports no Kubernetes code.
package network
