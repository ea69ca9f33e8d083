// Package networkpolicy resolves NetworkPolicy objects to what a node needs to
// enforce them: for each of its pods the policies that select it, and for each
// of those the addresses and ports that it allows.
//
// The controller watches policies, and pods and namespaces from the moment on
// that there is a policy. It resolves the policies of one space at a time, when
// something in that space changed, and tells every node what became different
// for it. The resolver is a pure function.
//
// Invariants: a policy of a tenant has no effect beyond the tenant, whatever its
// selectors say; one of the system space may select peers in every space. A node
// learns of its own pods, and of others no more than their addresses. A pod on
// its node's network has no address of its own, so it is neither selected nor a
// peer. An address that two pods claim, as happens while one goes and the other
// comes, is a peer only where both of them are.
//
// server and server/nodeapi may import it. Of Kubernetes it imports client-go
// only.
package networkpolicy
