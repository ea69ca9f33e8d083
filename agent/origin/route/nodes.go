package route

import (
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/agent/origin"
)

// asksForNodes reports whether a list or watch is about all nodes, as those of flannel are.
func asksForNodes(q *origin.Request) bool {
	if q.Resource != nodeResource || !q.Collects() {
		return false
	}
	_, one := oneName(q)
	return !one
}

// nodeLists remembers who said last which nodes there are, for one client: the versions that it has
// are of that partition.
type nodeLists struct {
	mu   sync.Mutex
	from string
}

func (l *nodeLists) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from
}

func (l *nodeLists) is(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = from
}

// allNodes sends on a list or watch of all nodes. Each partition with tenants has those of
// the whole cluster, in copies; one with nodes only has its own, so another one is asked: home,
// or one that answers when home does not. A client whose version is of a partition that
// does not answer any more has to list again, which leads to another one.
func (t *table) allNodes(q *origin.Request, own http.RoundTripper, nodes *nodeLists) (*http.Response, error) {
	if t.node == nil || slices.Contains(t.all, t.node) {
		return t.aboutNode(q, own)
	}
	o := &q.Options
	if o.Continue != "" || q.Verb == origin.VerbWatch && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		if p := t.byName[nodes.last()]; p != nil && !p.refuses() {
			resp, err := p.RoundTrip(q.HTTP)
			if err == nil || q.HTTP.Context().Err() != nil {
				return resp, err
			}
		}
		return refuse(q, http.StatusGone, metav1.StatusReasonExpired, "the client has to list again")
	}
	last := nodes.last()
	order := slices.Clone(t.all)
	if i := slices.IndexFunc(order, func(p *partition) bool { return p.Name == last }); i > 0 {
		order[0], order[i] = order[i], order[0]
	}
	var failed *http.Response
	for _, p := range order {
		if p.refuses() {
			continue
		}
		one := copyOf(q)
		if p.Name != last {
			// Versions of one partition say nothing to another.
			query := one.HTTP.URL.Query()
			query.Del("resourceVersion")
			if query.Get("sendInitialEvents") == "" {
				query.Del("resourceVersionMatch")
			}
			one.HTTP.URL.RawQuery = query.Encode()
		}
		resp, err := p.RoundTrip(one.HTTP)
		switch {
		case err != nil && q.HTTP.Context().Err() != nil:
			return nil, err
		case err == nil && resp.StatusCode < http.StatusInternalServerError:
			nodes.is(p.Name)
			return resp, nil
		case err == nil && failed == nil:
			failed = resp
		case err == nil:
			_ = resp.Body.Close() // it says nothing that counts
		}
	}
	if failed != nil {
		return failed, nil
	}
	return unavailable(q, "no partition with tenants answers, and only those know all nodes")
}
