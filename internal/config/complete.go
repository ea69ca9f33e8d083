package config

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/jointoken"
)

// flagSource names a setting by its flag.
func flagSource(name string) string { return Dashed(name) }

// Complete fills what is derived from other settings and reads the token
// files. It expects a Server that Validate accepts.
func (s *Server) Complete() error { return s.complete(flagSource) }

func (s *Server) complete(source func(string) string) error {
	for i, url := range s.JoinURLs {
		s.JoinURLs[i] = strings.TrimSuffix(url, "/")
	}
	for i, url := range s.ClusterURLs {
		s.ClusterURLs[i] = strings.TrimSuffix(url, "/")
	}
	// A tenant partition has no nodes of its own.
	s.DisableAgent = s.DisableAgent || s.TenantPartition != "" && s.ResourcePartition == ""
	if s.WriteKubeconfig == "" {
		s.WriteKubeconfig = DefaultKubeconfig
	}
	if s.EtcdSnapshotDir == "" {
		s.EtcdSnapshotDir = filepath.Join(s.Agent.DataDir, snapshotDirName)
	}
	s.EtcdS3.normalize()
	if s.DefaultLocalStoragePath == "" {
		s.DefaultLocalStoragePath = filepath.Join(s.Agent.DataDir, "storage")
	}
	if len(s.ServiceLBReservedPorts) == 0 {
		s.ServiceLBReservedPorts = []string{"22"}
	}
	s.ClusterDNS = s.Network.DNS.String()
	if err := readToken(source, "token-file", s.TokenFile, &s.Token); err != nil {
		return err
	}
	return readToken(source, "agent-token-file", s.AgentTokenFile, &s.AgentToken)
}

// Complete reads the token file. It expects an Agent that Validate accepts.
func (a *Agent) Complete() error { return a.complete(flagSource) }

func (a *Agent) complete(source func(string) string) error {
	urls := make([]string, 0, len(a.ServerURLs))
	for _, u := range a.ServerURLs {
		if u = strings.TrimSuffix(u, "/"); !slices.Contains(urls, u) {
			urls = append(urls, u)
		}
	}
	a.ServerURLs = urls
	return readToken(source, "token-file", a.TokenFile, &a.Token)
}

func readToken(source func(string) string, setting, path string, token *string) error {
	if path == "" {
		return nil
	}
	text, err := jointoken.ReadFile(source(setting), path)
	if err != nil {
		return err
	}
	if _, err := jointoken.Parse(source(setting)+" "+path, text); err != nil {
		return err
	}
	*token = text
	return nil
}

// nthAddress returns the address n above the first one of p, an IPv4 range.
func nthAddress(p netip.Prefix, n uint32) netip.Addr {
	b := p.Masked().Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += n
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}
