package groupwatch

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

const (
	// avoided is how long a server that did not answer is asked after all others.
	avoided = time.Minute
	// lookout is how often somebody who waits for an answer of a server looks whether it is
	// still one.
	lookout = time.Second
)

// faults are when servers last did not answer a request or broke a stream. They say in which order
// servers are asked, and probe nothing: all the others have the answer, too. What
// server/partition/connect remembers is of dials, and for seconds: it has a few servers of one
// partition, and nobody else to ask.
type faults struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (f *faults) note(host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	for other, at := range f.at {
		if time.Since(at) > avoided {
			delete(f.at, other)
		}
	}
	f.at[host] = time.Now()
}

func (f *faults) forget(host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.at, host)
}

func (f *faults) has(host string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.at[host]
	return ok && time.Since(at) <= avoided
}

// hosts are those of a group's servers in any order, none for no group.
func (g *Groups) hosts(group string) []string {
	if group == "" || group == partitionapi.Rest {
		return nil
	}
	hosts := g.servers.Group(group)
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return hosts
}

// candidates are where to ask for what a group has, in order: its servers, "" for the one that
// a client reaches anyway, which answers for all, and servers that did not answer of late.
func (g *Groups) candidates(group string) []string {
	var good, bad []string
	for _, host := range g.hosts(group) {
		if g.faults.has(host) {
			bad = append(bad, host)
		} else {
			good = append(good, host)
		}
	}
	return append(append(good, ""), bad...)
}

// ask sends a request to a server of a group. It gives up when that is no server of it any
// more: one that died is not for long, and its connections hang for longer. If whole is set
// that goes for the body of the answer, too. done is to be called at its end.
func (g *Groups) ask(
	base http.RoundTripper, req *http.Request, host, group string, whole bool,
) (_ *http.Response, done func(), err error) {
	asked := req.Context()
	ctx, cancel := context.WithCancel(asked)
	watching, stop := context.WithCancel(ctx)
	if host != "" {
		go func() {
			ticker := time.NewTicker(lookout)
			defer ticker.Stop()
			for {
				select {
				case <-watching.Done():
					return
				case <-ticker.C:
					if !slices.Contains(g.servers.Group(group), host) {
						cancel()
					}
				}
			}
		}()
	}
	res, err := base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
		if host != "" && asked.Err() == nil {
			g.faults.note(host)
		}
		return nil, nil, err
	}
	if host != "" {
		g.faults.forget(host)
	}
	if !whole {
		stop()
	}
	return res, func() {
		stop()
		cancel()
	}, nil
}

// homeward ends a stream that another server gives in place of its group's, from the datastore,
// at a random moment once a server of the group answers. Who reads it goes on there.
func (g *Groups) homeward(base http.RoundTripper, req *http.Request, group string, end func()) {
	ctx := req.Context()
	ticker := time.NewTicker(lookout)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, host := range g.hosts(group) {
			if g.faults.has(host) {
				continue
			}
			if !answers(base, req, host) {
				g.faults.note(host)
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(rand.N(g.spread + 1)):
				end()
			}
			return
		}
	}
}

// answers reports whether a server is ready.
func answers(base http.RoundTripper, req *http.Request, host string) bool {
	ctx, cancel := context.WithTimeout(req.Context(), patience)
	defer cancel()
	out := to(ctx, req, host)
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery = "/readyz", "", ""
	res, err := base.RoundTrip(out)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// broke is told how a stream of a server has ended.
func (g *Groups) broke(ctx context.Context, host string, err error) {
	if host != "" && ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, errFrame) {
		g.faults.note(host)
	}
}
