// Package source stands between the kubelet and the API server and adds the
// bootstrap pods to what the kubelet is told, so that to the kubelet they are
// pods of the API server from the first moment: no static pods, no mirror pods.
//
// Three things are done to the requests of the kubelet's clients. Lists and
// watches of the node's pods also show the bootstrap pods that the server does
// not have yet; when it has one, under the same UID, the server's takes its
// place, and the kubelet sees no more than an update. What the kubelet reads
// and writes about a pod that no server has is answered here. And until this
// process has reached a server for the first time, the five collections that a
// kubelet needs to start anything (pods, its node, services, runtime classes,
// CSI drivers) are answered from a checkpoint: what a server said last, which
// is on disk.
//
// The checkpoint matters because a kubelet ends every pod that is not in its
// list: a list without the pods of the server would end them all.
//
// Invariants: no deletion reaches the kubelet about a pod that the server never
// had, except one that was asked for here; without a checkpoint that can be
// trusted there is no list, rather than a short one; once a server was reached,
// its errors are passed on and the kubelet keeps what it knows, as upstream.
// While it cannot be reached the kubelet goes on from what it knows, and hears
// of bootstrap pods.
//
// agent's wiring may import it. It imports no Kubernetes server code.
package source
