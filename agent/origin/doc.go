// Package origin is what stands between the kubelet and the API: the transport of the kubelet's
// clients (Transport), which changes what pods see, the bootstrap pods before the home partition
// (Bootstrap), and the ways to the servers (Way). What the path of a request means is read once,
// by upstream's code, and goes with the request in its context. docs/developing/architecture.md draws the
// layers of a request.
//
// Pods of tenants show native names. The kubelet works with composite namespaces
// ("default.t1"), which it needs to tell equally named pods of two tenants apart.
// Most of what a container learns about its namespace the kubelet takes from the
// pod, so lists, watches and gets of pods are rewritten: Downward API values of
// metadata.namespace become the native namespace and the DNS search path has native
// names. Of Services, those are left out that would take the place of the cluster's
// own "kubernetes" in the environment of a tenant's containers.
//
// An annotation on the kubelet's copy of a pod names its type of workload if it is
// not of containers, and the kubelet shows it to the runtimes. A new pod that cannot
// start on this node, because the runtime of its type is not ready or its type is
// unknown, is kept from the kubelet and refused in the API, since no part of a4s can
// take part in the kubelet's own admission.
//
// Bootstrap pods are pods of the API server for the kubelet from the first moment: no
// static pods, no mirror pods. Lists and watches of the node's pods also show those
// that the server does not have yet; when it has one, under the same UID, the server's
// takes its place, and the kubelet sees no more than an update. Reads and writes of a
// pod that no server has are answered here. Until this process has reached a server
// for the first time, the five collections that a kubelet needs to start any pod (pods,
// its node, services, runtime classes, CSI drivers) are answered from a checkpoint on
// disk: what a server said last. A kubelet ends every pod that is not in its list, so
// a list without the pods of the server would end them all.
//
// Where the cluster has several tenant partitions, agent/origin/route is the Uplink: it
// makes one API server of them, with the collections of agent/origin/merge. Bootstrap pods are
// none of these: they are told from the server's by versions of home, and a merged collection has
// versions of its own. Pods of the
// system spaces of partitions other than home have qualified namespaces (see
// internal/space) and see native ones, as tenants do; all pods of such partitions get
// the address of their own partition's API and name server.
//
// The external addresses of the node are added to each status of it that the kubelet
// reports.
//
// Invariants: pods of the home partition's system space, except for the type, and writes of the
// kubelet pass unchanged, byte by byte, except for these addresses;
// metadata.namespace is never changed; the same pod and the same settings always give
// the same result, also in another run, or the kubelet would take a restart for a
// change; an answer that cannot be understood is an error, never passed on with
// composite names in it; a pod that any kubelet has taken, and one that nobody placed
// here, is never refused, whatever becomes of its runtime; a pod is refused once.
// No deletion of a pod that the server never had reaches the kubelet, except one that
// was asked for here; without a checkpoint that can be trusted there is no list, rather
// than a short one; once a server was reached, its errors are passed on and the
// kubelet keeps what it knows, as upstream. While the server cannot be reached the
// kubelet goes on from what it knows, and sees bootstrap pods.
//
// agent/kubelet and agent's wiring may import it. It imports no Kubernetes server code.
package origin
