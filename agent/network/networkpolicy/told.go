package networkpolicy

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/serverstream"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

// knowledge is what a server told. It is not changed any more once it was
// handed out.
type knowledge struct {
	// off says that there are no policies.
	off      bool
	pods     map[string]*netpolicy.Pod
	policies map[string]*netpolicy.Policy
	sets     map[string]*set
}

type set struct {
	endpoints bool
	members   map[netpolicy.Member]bool
}

func newKnowledge() *knowledge {
	return &knowledge{pods: map[string]*netpolicy.Pod{}, policies: map[string]*netpolicy.Policy{}, sets: map[string]*set{}}
}

// with returns what is known after a batch.
func (k *knowledge) with(batch []netpolicy.Line) *knowledge {
	next := &knowledge{off: k.off, pods: maps.Clone(k.pods), policies: maps.Clone(k.policies), sets: maps.Clone(k.sets)}
	changing := map[string]bool{} // sets that are ours to change
	for _, l := range batch {
		if l.Off {
			next = newKnowledge()
			next.off = true
			clear(changing)
			continue
		}
		next.off = false
		switch {
		case l.Pod != nil && l.Pod.Deleted:
			delete(next.pods, l.Pod.Key())
		case l.Pod != nil:
			next.pods[l.Pod.Key()] = l.Pod
		case l.Policy != nil && l.Policy.Deleted:
			delete(next.policies, l.Policy.ID)
		case l.Policy != nil:
			next.policies[l.Policy.ID] = l.Policy
		case l.Set != nil && l.Set.Deleted:
			delete(next.sets, l.Set.ID)
			delete(changing, l.Set.ID)
		case l.Set != nil:
			s := next.sets[l.Set.ID]
			switch {
			case s == nil:
				s = &set{endpoints: l.Set.Endpoints, members: map[netpolicy.Member]bool{}}
			case !changing[l.Set.ID]:
				s = &set{endpoints: s.endpoints, members: maps.Clone(s.members)}
			}
			next.sets[l.Set.ID], changing[l.Set.ID] = s, true
			for _, m := range l.Set.Add {
				s.members[m] = true
			}
			for _, m := range l.Set.Remove {
				delete(s.members, m)
			}
		}
	}
	return next
}

// follower keeps what a server tells.
type follower struct {
	config  *rest.Config // the node's credential
	log     *logrus.Entry
	changed func()
	failed  chan struct{} // receives when a server did not answer

	mu    sync.Mutex
	known *knowledge // nil until a server told everything once
	heard time.Time  // when it did so last
}

// get returns what a server told last, nil if nothing, and when.
func (f *follower) get() (*knowledge, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known, f.heard
}

func (f *follower) set(k *knowledge) {
	f.mu.Lock()
	f.known, f.heard = k, time.Now()
	f.mu.Unlock()
	f.changed()
}

// follow keeps what is known up to date until ctx ends.
func (f *follower) follow(ctx context.Context) error {
	refused := false
	return serverstream.Follow(ctx, serverstream.Options{
		Config: f.config, Path: joinapi.PathNetworkPolicies, Silence: 3 * netpolicy.Alive, Log: f.log,
		Warning: "no server tells the network policies; the last ones stay in effect, and new pods cannot be reached over the network until one does",
	}, func() serverstream.Reader[netpolicy.Line] {
		return &reader{follower: f}
	}, func(err error) {
		select {
		case f.failed <- struct{}{}:
		default: // it did before
		}
		var status *serverstream.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusNotFound {
			return
		}
		// The server is older, or was told to enforce none.
		if !refused {
			refused = true
			f.log.WithError(err).Warn("the server tells no network policies; none is enforced here")
		}
		k := newKnowledge()
		k.off = true
		f.set(k)
	})
}

// reader is one connection.
type reader struct {
	*follower
	batch []netpolicy.Line
	// known is what this connection told; nil before its first batch, which is
	// everything.
	known *knowledge
}

// Line takes over one line.
func (r *reader) Line(l netpolicy.Line) bool {
	if !l.Complete {
		r.batch = append(r.batch, l)
		return r.known != nil
	}
	if r.known != nil && len(r.batch) == 0 {
		r.mu.Lock()
		r.heard = time.Now()
		r.mu.Unlock()
		return true
	}
	if r.known == nil {
		r.known = newKnowledge()
	}
	r.known = r.known.with(r.batch)
	r.batch = nil
	r.set(r.known)
	return true
}
