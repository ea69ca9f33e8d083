package isolation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/localpods"
	"github.com/a4s-io/a4s/internal/join"
)

// Back-off between two connections.
const (
	minPause = 500 * time.Millisecond
	maxPause = 30 * time.Second
)

// silence is how long a stream may be silent before it counts as broken.
const silence = 3 * join.PodAddressesAlive

// addresses is what a server tells of the whole pod network.
type addresses struct {
	config  *rest.Config // the node's credential
	log     *logrus.Entry
	changed func()

	mu       sync.Mutex
	known    map[netip.Addr]localpods.Pod
	complete bool // a server told everything once
}

// get returns what is known, and whether it was everything at some time.
func (a *addresses) get() (map[netip.Addr]localpods.Pod, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.known), a.complete
}

// follow keeps what is known up to date until ctx ends.
func (a *addresses) follow(ctx context.Context) error {
	client, err := rest.HTTPClientFor(a.config)
	if err != nil {
		return fmt.Errorf("client for the pods' addresses: %w", err)
	}
	target, err := url.JoinPath(a.config.Host, join.PathPodAddresses)
	if err != nil {
		return fmt.Errorf("address of the server: %w", err)
	}
	pause, told := minPause, false
	for {
		complete, err := a.read(ctx, client, target)
		if ctx.Err() != nil {
			return nil
		}
		if complete {
			pause, told = minPause, false
		}
		// A server that restarts is no news.
		if entry := a.log.WithError(err); !told && pause > 4*minPause {
			told = true
			entry.Warn("no server tells the pods' addresses; new pods on other nodes cannot reach tenants' pods here until one does")
		} else {
			entry.Debug("the stream of the pods' addresses ended")
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, maxPause)
	}
}

// read follows one stream to its end and reports whether it told everything.
func (a *addresses) read(ctx context.Context, client *http.Client, target string) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // only for the message
		return false, fmt.Errorf("the server answered %s: %s", resp.Status, text)
	}
	lines := json.NewDecoder(resp.Body)
	fresh := map[netip.Addr]localpods.Pod{}
	for {
		var p join.PodAddress
		if err := lines.Decode(&p); err != nil {
			return complete, err
		}
		watchdog.Reset(silence)
		switch {
		case p.Complete && !complete:
			complete = true
			a.mu.Lock()
			a.known, a.complete = fresh, true
			a.mu.Unlock()
			a.changed()
		case !complete:
			put(fresh, p)
		case p.IP != "":
			a.mu.Lock()
			put(a.known, p)
			a.mu.Unlock()
			a.changed()
		}
	}
}

func put(known map[netip.Addr]localpods.Pod, p join.PodAddress) {
	addr, err := netip.ParseAddr(p.IP)
	switch {
	case err != nil: // of a newer version
	case p.Deleted:
		delete(known, addr)
	default:
		known[addr] = localpods.Pod{Tenant: p.Tenant, Shared: p.Shared}
	}
}
