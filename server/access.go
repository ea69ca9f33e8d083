package server

import (
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/tenancy/tenants/access"
)

// accesses is what the accesses to tenants are made with. The authorities can be replaced while
// the server runs.
func (s *Server) accesses(internal *rest.Config) access.Options {
	return access.Options{
		Config: internal, Partition: s.partition.Self(),
		Server: "https://" + s.addresses.external, ServerCA: s.files.serverCA,
		ClientCA: s.clientCA,
	}
}

// clientCA is the one that signs certificates of clients, as it is now.
func (s *Server) clientCA() (*pki.CA, error) { return pki.LoadCA(s.files.pki.ClientCA) }
