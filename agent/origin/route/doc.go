// Package route sends the requests of a node to the partitions of the cluster: those
// about its pods to the tenant partition that has the pod, those about the node to
// its resource partition. It is an origin.Uplink, so that the kubelet sees one API
// server.
//
// Lists and watches of the whole node are answered by agent/origin/merge. A request
// with a namespace goes to the partition of the namespace: its name tells whose it is
// if it is of a system space; of a tenant it is known from the pods of the node. The
// system spaces of partitions other than home have qualified names on the node (see
// internal/space), which are translated in paths, bodies and answers.
//
// Lists and watches of all nodes go to a partition with tenants, which has copies of all.
//
// While the cluster has one partition, requests and answers pass as they are. When a
// second one joins, the watches that are under way end, and the node's clients list
// again.
//
// Invariants: what cannot be told to belong to a partition is refused, never sent to
// one by chance; no resource version of this node reaches a server; a request to a
// partition that does not answer fails within a few seconds, and the next ones at
// once, so that it stops no other; such failures are answers and no broken
// connections, which the kubelet would repeat for minutes before it goes on.
//
// The transport of every client of the node's pods is
//
//	origin.New(router, origin.Options{Partition: router.Partition, ...})
//
// and that of the service proxy and the pod network is origin.Plain(router.Through(...)),
// with the transport that they had. Bootstrap pods are of the home partition: origin.Bootstrap
// stands before its Transport.
//
// agent/cluster/partitions says which partitions there are, and how they are reached.
//
// agent/kubelet and agent's wiring may import it. It imports no Kubernetes server code.
package route
