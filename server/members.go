package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/cluster/members"
	"github.com/a4s-io/a4s/server/cluster/settings"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/nodeapi"
)

// bundle is what this server gives to one that joins.
func (s *Server) bundle() (*joinapi.ServerBundle, error) {
	f := s.files
	b := &joinapi.ServerBundle{Settings: settings.OfServers(s.cfg), ServerToken: s.tokens.Server().Password,
		AgentToken: s.tokens.Agent().Password, Partition: s.partition.Member()}
	var err error
	if b.PKI, err = pki.ReadShared(f.pki.Dir); err != nil {
		return nil, fmt.Errorf("reading what servers share: %w", err)
	}
	if b.Encryption, err = os.ReadFile(f.encryption); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the encryption configuration: %w", err)
	}
	if s.peers.shared != nil {
		record, err := datastore.ReadRecord(f.dir)
		if err != nil {
			return nil, err
		}
		b.Cluster = record.Cluster
	}
	if m := s.store.members(); m != nil {
		for _, member := range m.Members() {
			if !member.Learner {
				b.Datastore = append(b.Datastore, member.ClientURLs...)
			}
		}
	}
	return b, nil
}

// members is the datastore as one whose members can change, nil if it is not.
func (s *store) members() members.Datastore {
	if !s.peers.clustered {
		return nil
	}
	return s.anyMembers()
}

// anyMembers is embedded etcd of this server or of others, nil if there is none.
func (s *store) anyMembers() members.Datastore {
	switch store := s.Datastore.(type) {
	case etcdStore:
		return store.Server
	case remoteStore:
		return store.Remote
	}
	return nil
}

// listMembers tells administrators of the members.
func (s *store) listMembers() []joinapi.Member {
	e := s.anyMembers()
	if e == nil {
		return nil
	}
	var out []joinapi.Member
	for _, m := range e.Members() {
		one := joinapi.Member{Name: m.Name, ID: m.HexID(), Learner: m.Learner}
		if len(m.PeerURLs) > 0 {
			if u, err := url.Parse(m.PeerURLs[0]); err == nil {
				one.Address = u.Hostname()
			}
		}
		out = append(out, one)
	}
	return out
}

func (s *store) removeMember(ctx context.Context, name string) error {
	e := s.anyMembers()
	if e == nil {
		return nodeapi.ErrNoMember
	}
	switch what, m := etcd.PlanRemoval(e.Members(), name); what {
	case etcd.RemoveMember:
		return e.RemoveMember(ctx, m.ID)
	case etcd.RemoveRefused:
		return nodeapi.ErrLastMember
	default:
		return nodeapi.ErrNoMember
	}
}

// serverSANs are names and addresses of all servers of the cluster.
func (s *Server) serverSANs() []string {
	out := s.store.serverSANs()
	if s.servers == nil {
		return out
	}
	for _, other := range s.servers.All() {
		out = append(out, other.Name)
		if host, _, err := net.SplitHostPort(other.Address); err == nil {
			out = append(out, host)
		}
	}
	return out
}

// serverSANs are names and addresses of the servers with a member of the datastore.
func (s *store) serverSANs() []string {
	m := s.members()
	if m == nil {
		return nil
	}
	var out []string
	for _, member := range m.Members() {
		if member.Name != "" {
			out = append(out, member.Name)
		}
		for _, text := range member.PeerURLs {
			if u, err := url.Parse(text); err == nil {
				out = append(out, u.Hostname())
			}
		}
	}
	return out
}
