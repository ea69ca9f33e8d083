// Package bootstrap lets nodes persist the pods that they ran before there was
// an API server, under the UID that these run with: what has another UID is
// another pod to the kubelet, which would end the containers and start new ones.
//
// Upstream lets a node create mirror pods only and gives every object a UID of
// its own. Here one more kind of pod is let in from a node (rule.go says which),
// at the two plugins that know nodes and service accounts (admission.go) and
// where the storage of pods fills in what the system decides (uid.go).
//
// Invariants: nobody but a node chooses a UID, and a node none that the cluster
// knows; a pod that a node offers runs on this node, is of the system space,
// and refers to nothing in the API, as is the rule for mirror pods; the mark of
// such a pod is on no other pod that is created. Once stored it is a pod like
// any other.
//
// Only server may import it.
package bootstrap
