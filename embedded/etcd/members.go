package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// Member is one member of the datastore's cluster.
type Member struct {
	ID uint64
	// Name is that of the member's node. One that never started has none.
	Name                 string
	PeerURLs, ClientURLs []string
	// Learner says that the member has no vote yet: it is catching up.
	Learner bool
}

func (m Member) String() string {
	if m.Name == "" {
		return fmt.Sprintf("%x at %v, which never started", m.ID, m.PeerURLs)
	}
	return fmt.Sprintf("%s at %v", m.Name, m.PeerURLs)
}

// HexID is the ID as etcd writes it.
func (m Member) HexID() string { return strconv.FormatUint(m.ID, 16) }

func fromMembership(m *membership.Member) Member {
	return Member{ID: uint64(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner}
}

// loopback says whether other machines cannot reach the member: it is the only
// one of a server that was never told to be one of several.
func (m Member) loopback() bool {
	return !slices.ContainsFunc(m.PeerURLs, func(text string) bool {
		u, err := url.Parse(text)
		return err != nil || u.Hostname() != "127.0.0.1"
	})
}

// view is what one member says of its cluster.
type view struct {
	cluster uint64
	members []Member
}

// joinAction is how a server without data becomes a member.
type joinAction int

const (
	// joinAdd adds a member.
	joinAdd joinAction = iota
	// joinReuse takes up the member that an earlier try added.
	joinReuse
	// joinReplace removes the member that this machine was before it lost its
	// data, and adds one.
	joinReplace
)

// errNameTaken means that another machine runs the member of this name.
var errNameTaken = errors.New("another server of this name is running")

// planJoin decides how a server without data joins: name is that of its node,
// peerURL where other members will reach it. answers says whether a member can
// be reached. The ID is that of the member that is taken up or replaced.
func planJoin(members []Member, name, peerURL string, answers func(Member) bool) (joinAction, uint64, error) {
	// Whoever was at this address before is gone: we are at it now.
	for _, m := range members {
		switch {
		case !slices.Contains(m.PeerURLs, peerURL):
		case m.Name == "":
			return joinReuse, m.ID, nil
		default:
			return joinReplace, m.ID, nil
		}
	}
	for _, m := range members {
		switch {
		case m.Name != name:
		case answers(m):
			return 0, 0, errNameTaken
		default:
			return joinReplace, m.ID, nil
		}
	}
	return joinAdd, 0, nil
}

// standing is how a member that has data finds its cluster.
type standing int

const (
	// standingGood is a member that the others know as it is.
	standingGood standing = iota
	// standingMoved is one that the others know at another address.
	standingMoved
	// standingRemoved is one that the others do not know any more.
	standingRemoved
	// standingForeign is one whose cluster the others have left, because it
	// was restored from a snapshot or set up anew.
	standingForeign
)

// judge compares what the data directory says with what another member does.
func judge(d *Disk, peerURL string, v view) standing {
	if v.cluster != d.Cluster {
		return standingForeign
	}
	i := slices.IndexFunc(v.members, func(m Member) bool { return m.ID == d.Self })
	switch {
	case i < 0:
		return standingRemoved
	case !slices.Equal(v.members[i].PeerURLs, []string{peerURL}):
		return standingMoved
	}
	return standingGood
}

// Removal is what the deletion of a node means for the datastore.
type Removal int

const (
	// RemoveNothing means that there is no such member.
	RemoveNothing Removal = iota
	// RemoveMember means that the member goes.
	RemoveMember
	// RemoveRefused means that the member is the last one that votes.
	RemoveRefused
)

// PlanRemoval decides what happens to the member of a node that is deleted. One
// that never started, and has no name, can be meant by its ID.
func PlanRemoval(members []Member, node string) (Removal, Member) {
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == node || m.HexID() == node })
	if i < 0 {
		return RemoveNothing, Member{}
	}
	others := slices.ContainsFunc(members, func(m Member) bool { return m.ID != members[i].ID && !m.Learner })
	if !members[i].Learner && !others {
		return RemoveRefused, members[i]
	}
	return RemoveMember, members[i]
}
