package tenancy

import (
	"os"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/upstreamflags"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
)

// clusterIssuers are those whose tokens the cluster's own configuration has authenticated: they are none of a
// tenant's.
type clusterIssuers struct {
	always map[string]bool
	file   string // the authentication configuration, which is read again when it changes; "" for none

	mu     sync.Mutex
	read   time.Time // when what was read was written
	size   int64
	inFile map[string]bool
}

func newClusterIssuers(args []string, clusterDomain string) *clusterIssuers {
	c := &clusterIssuers{always: map[string]bool{apiserver.Issuer(clusterDomain): true}}
	for _, arg := range args {
		_, value, _ := strings.Cut(arg, "=")
		switch upstreamflags.Name(arg) {
		case "service-account-issuer", "oidc-issuer-url":
			c.always[value] = true
		case "authentication-config":
			c.file = value
		}
	}
	return c
}

// has reports whether an issuer is one of them. What cannot be read changes nothing, as upstream goes on with
// what it read last, too.
func (c *clusterIssuers) has(url string) bool {
	if c.always[url] {
		return true
	}
	if c.file == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if info, err := os.Stat(c.file); err == nil && (!info.ModTime().Equal(c.read) || info.Size() != c.size) {
		if urls, err := issuersIn(c.file); err == nil {
			c.read, c.size, c.inFile = info.ModTime(), info.Size(), urls
		}
	}
	return c.inFile[url]
}

func issuersIn(file string) (map[string]bool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config struct {
		JWT []struct {
			Issuer struct {
				URL string `json:"url"`
			} `json:"issuer"`
		} `json:"jwt"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	urls := map[string]bool{}
	for _, j := range config.JWT {
		urls[j.Issuer.URL] = true
	}
	return urls, nil
}
