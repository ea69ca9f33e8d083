package loadbalancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

// FileName is the file in the agent directory that holds the list of servers.
const FileName = "servers.json"

// kept is what the file holds.
type kept struct {
	// Listen is where the load balancer listened.
	Listen string `json:"listen"`
	// Configured are the URLs that the node was given.
	Configured []string `json:"configured"`
	// Learned are the addresses that the cluster named.
	Learned []string `json:"learned"`
}

func read(dir string) (kept, error) {
	var k kept
	data, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(data, &k); err != nil {
		return kept{}, err
	}
	for _, address := range k.Learned {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return kept{}, err
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || net.ParseIP(host) == nil {
			return kept{}, fmt.Errorf("%q is no address of a server", address)
		}
	}
	return k, nil
}

// recall returns the servers that are on disk. Those of a node that is given
// wholly other servers now are not: they may be of another cluster.
func (p *pool) recall() []string {
	if p.o.Dir == "" {
		return nil
	}
	k, err := read(p.o.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		p.log.WithError(err).WithField("file", filepath.Join(p.o.Dir, FileName)).
			Warn("the list of servers cannot be read; starting with those of --server, and writing it anew")
		return nil
	}
	if !slices.ContainsFunc(k.Configured, func(u string) bool { return slices.Contains(p.o.Configured, u) }) {
		p.log.Info("--server names other servers than before; forgetting those that the cluster named then")
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(k.Learned)))
}

// save writes the list if it changed. What was written stays until a cluster
// has answered: the settings may be a mistake. mu is held.
func (p *pool) save() {
	if !p.dirty || len(p.learned) == 0 || p.o.Dir == "" {
		return
	}
	data, err := json.MarshalIndent(kept{Listen: p.o.Listen, Configured: p.o.Configured, Learned: p.learned}, "", "  ")
	if err == nil {
		err = os.MkdirAll(p.o.Dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Update(filepath.Join(p.o.Dir, FileName), append(data, '\n'), 0o600)
	}
	if err != nil {
		p.log.WithError(err).Warn("cannot write the list of servers; it is tried again")
		return
	}
	p.dirty = false
}

// Recall returns the URLs of the servers behind the load balancer with the
// given URL, as far as the agent directory dir tells; none if it is not one.
func Recall(dir, balancerURL string) []string {
	k, err := read(dir)
	if err != nil || "https://"+k.Listen != balancerURL {
		return nil
	}
	urls := slices.Clone(k.Configured)
	for _, address := range k.Learned {
		if !slices.ContainsFunc(urls, func(u string) bool { return hostPort(u) == address }) {
			urls = append(urls, "https://"+address)
		}
	}
	return urls
}
