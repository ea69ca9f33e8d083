package server

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/servers"
)

// registry is of the servers that know each other by their Leases: those of service
// groups, those that share an etcd, and those without a member of embedded etcd. A server
// of which members of embedded etcd say enough only follows the others. The only server
// has none.
func (s *Server) registry(client kubernetes.Interface) *servers.Registry {
	own, applied := s.groups.Lease(servers.Server{Name: s.cfg.Agent.NodeName, Address: s.addresses.join,
		NoMember: s.cfg.DisableEtcd}, s.peers.shared != nil || s.cfg.DisableEtcd, s.spaces)
	if own.Name == "" && !s.peers.clustered {
		return nil
	}
	return servers.New(client, own, applied)
}

// memberless names the servers that live and have no member of embedded etcd.
func (s *Server) memberless() []string {
	var names []string
	if s.servers != nil {
		for _, other := range s.servers.All() {
			if other.Ready && other.NoMember {
				names = append(names, other.Name)
			}
		}
	}
	return names
}

// onlyMembers refuses a change of what servers share (what) that those without a member
// of embedded etcd would not learn of.
func (s *Server) onlyMembers(what string) error {
	if s.cfg.DisableEtcd {
		return &problem.Precondition{What: what,
			Err: errors.New("this server has no member of the datastore (--disable-etcd), and is not told of changes"),
			Fix: "stop it and every other such server, and run the command on a server that has a member"}
	}
	if names := s.memberless(); len(names) > 0 {
		return &problem.Precondition{What: what,
			Err: fmt.Errorf("servers without a member of the datastore (--disable-etcd) are not told of changes, and "+
				"run: %s", strings.Join(names, ", ")),
			Fix: "stop them, make the change, and start them again; after new certificate authorities move their " +
				"server directories away before that, and give them the new token"}
	}
	return nil
}
