package topology

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// handle gives a plugin of upstream's the lists below.
type handle struct {
	fwk.Handle
	lists *lists
}

// SnapshotSharedLister implements fwk.Handle.
func (h handle) SnapshotSharedLister() fwk.SharedLister { return h.lists }

// lists are those of the snapshot, of which some are shorter while a plugin runs for a pod. They have no lock: there
// is one scheduling cycle at a time, and a plugin reads its lists at two points of it.
type lists struct {
	fwk.SharedLister
	index *index
	// list shortens that of all nodes; affine returns those that can have pods with terms of affinity.
	list   func(all []fwk.NodeInfo) []fwk.NodeInfo
	affine func() ([]fwk.NodeInfo, error)
}

// whole has the lists be those of the snapshot again.
func (l *lists) whole() { l.list, l.affine = nil, nil }

// NodeInfos implements fwk.SharedLister.
func (l *lists) NodeInfos() fwk.NodeInfoLister { return nodeLists{l.SharedLister.NodeInfos(), l} }

type nodeLists struct {
	fwk.NodeInfoLister
	lists *lists
}

// List implements fwk.NodeInfoLister.
func (n nodeLists) List() ([]fwk.NodeInfo, error) {
	all, err := n.NodeInfoLister.List()
	if err != nil || n.lists.list == nil {
		return all, err
	}
	return n.lists.list(all), nil
}

// HavePodsWithAffinityList implements fwk.NodeInfoLister.
func (n nodeLists) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	if n.lists.affine == nil {
		return n.NodeInfoLister.HavePodsWithAffinityList()
	}
	return n.lists.affine()
}

// HavePodsWithRequiredAntiAffinityList implements fwk.NodeInfoLister. The nodes may have pods with other terms only,
// which upstream's plugin does not look at.
func (n nodeLists) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	if n.lists.affine == nil {
		return n.NodeInfoLister.HavePodsWithRequiredAntiAffinityList()
	}
	return n.lists.affine()
}
