package proxy

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// snapshot is everything that was told by the end of a batch. It never changes.
type snapshot struct {
	hosts        map[string]*host
	backends     map[string]*backend
	certificates map[string]*certificate
	tenants      map[string]*tenant
	// passing is how many hosts have connections that are not opened.
	passing int
}

// backend returns the backend with an ID if it is of this tenant.
func (s *snapshot) backend(id string, t *tenant) *backend {
	if b := s.backends[id]; b != nil && b.tenant == t.name {
		return b
	}
	return nil
}

// certificate is parsed once.
type certificate struct {
	tenant string
	// digest is of what it was parsed from, so that the same one is not parsed twice.
	digest [sha256.Size]byte
	parsed *tls.Certificate
}

// tables take lines and make snapshots of them. One goroutine uses them.
type tables struct {
	log       *logrus.Entry
	newTenant func(name string) *tenant
	// next is what will be shown at the end of the batch. A map of it that the shown snapshot has
	// too is copied before it changes; own says which are not shared.
	next  snapshot
	own   struct{ hosts, backends, certificates, tenants bool }
	shown atomic.Pointer[snapshot]
	// leaving are tenants without a host of which something goes on: it counts when they have one again.
	leaving map[string]*tenant
}

func newTables(log *logrus.Entry, newTenant func(string) *tenant) *tables {
	t := &tables{log: log, newTenant: newTenant, leaving: map[string]*tenant{}}
	t.shown.Store(&snapshot{})
	return t
}

// change returns a map that may change: m, or a copy of it if m is shown.
func change[V any](own *bool, m *map[string]V) map[string]V {
	if !*own {
		*own = true
		if *m = maps.Clone(*m); *m == nil {
			*m = map[string]V{}
		}
	}
	return *m
}

// apply takes one line, and reports whether it ended a batch.
func (t *tables) apply(line joinapi.IngressLine) bool {
	if line.Host != nil {
		t.host(line.Host)
	}
	if line.Backend != nil {
		t.backend(line.Backend)
	}
	if line.Certificate != nil {
		t.certificate(line.Certificate)
	}
	if line.Complete {
		t.show()
	}
	return line.Complete
}

func (t *tables) host(told *joinapi.IngressHost) {
	hosts := change(&t.own.hosts, &t.next.hosts)
	// The new one counts before the old one does not: its tenant must not seem to have none.
	old := hosts[told.Name]
	if told.Deleted {
		delete(hosts, told.Name)
	} else {
		hosts[told.Name] = newHost(told, t.tenant(told.Tenant))
	}
	t.next.passing += passing(hosts[told.Name]) - passing(old)
	if old != nil {
		old.tenant.hosts--
	}
}

// passing counts a host, which may be nil, if it has connections that are not opened.
func passing(h *host) int {
	if h == nil || h.passes == nil {
		return 0
	}
	return 1
}

// tenant returns that of one more host.
func (t *tables) tenant(name string) *tenant {
	of := t.next.tenants[name]
	if of == nil {
		if of = t.leaving[name]; of == nil {
			of = t.newTenant(name)
		}
		of.counts.reset() // what it had was reported
		delete(t.leaving, name)
		change(&t.own.tenants, &t.next.tenants)[name] = of
	}
	of.hosts++
	return of
}

func (t *tables) backend(told *joinapi.IngressBackend) {
	backends := change(&t.own.backends, &t.next.backends)
	if told.Deleted {
		delete(backends, told.ID)
		return
	}
	backends[told.ID] = newBackend(told, backends[told.ID])
}

func (t *tables) certificate(told *joinapi.IngressCertificate) {
	certificates := change(&t.own.certificates, &t.next.certificates)
	old := certificates[told.ID]
	delete(certificates, told.ID)
	if told.Deleted {
		return
	}
	c := &certificate{tenant: told.Tenant, digest: digest(told)}
	if old != nil && old.digest == c.digest {
		c.parsed = old.parsed
	} else if pair, err := tls.X509KeyPair(told.Chain, told.Key); err != nil {
		// The host is served with the certificate of no one then: what is plain HTTP goes on.
		t.log.WithField("certificate", told.ID).Warn(fmt.Errorf("a certificate is of no use: %w", err))
		return
	} else {
		c.parsed = &pair
	}
	certificates[told.ID] = c
}

func digest(c *joinapi.IngressCertificate) [sha256.Size]byte {
	chain, key := sha256.Sum256(c.Chain), sha256.Sum256(c.Key)
	return sha256.Sum256(append(chain[:], key[:]...))
}

// show ends a batch.
func (t *tables) show() {
	var gone []*tenant
	if t.own.hosts {
		for name, of := range t.next.tenants {
			if of.hosts == 0 {
				gone = append(gone, of)
				t.leaving[name] = of
				delete(change(&t.own.tenants, &t.next.tenants), name)
			}
		}
	}
	shown := t.next
	t.shown.Store(&shown)
	t.own.hosts, t.own.backends, t.own.certificates, t.own.tenants = false, false, false, false
	for _, of := range gone {
		go of.close() // backends can make it last, and other tenants must not wait for it
	}
	maps.DeleteFunc(t.leaving, func(_ string, of *tenant) bool { return !of.busy() })
}
