package charts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/addons/charts/archive"
	"github.com/a4s-io/a4s/server/addons/charts/confined"
	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

// look is what a confined process is to do: look at one HelmChart.
type look struct {
	Space           string
	Namespace, Name string
	Told            reconcile.Told
	Tries           int
}

func (l look) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.Namespace, Name: l.Name}
}

// maxError is how much is said of an error.
const maxError = 2 << 10

// looked is how that went.
type looked struct {
	Next reconcile.Next
	// Secrets are those that the HelmChart has values in.
	Secrets []string
	// Error is one that has nothing to do with the chart, such as that the API did not answer.
	Error string `json:",omitempty"`
}

// Confined is the work of a confined process: it looks at a HelmChart of a tenant.
func Confined(ctx context.Context, input []byte, dial confined.Dial) ([]byte, error) {
	var l look
	if err := json.Unmarshal(input, &l); err != nil {
		return nil, fmt.Errorf("reading what is to be done: %w", err)
	}
	r, watches, err := l.reconciler(ctx, dial)
	if err != nil {
		return nil, err
	}
	var out looked
	out.Next, err = r.Reconcile(ctx, l.key())
	if err != nil {
		out.Error = problem.Short(err.Error(), maxError)
	}
	out.Secrets = watches.secrets
	return json.Marshal(out)
}

// reconciler is one that reaches the space through the gate.
func (l look) reconciler(ctx context.Context, dial confined.Dial) (*reconcile.Reconciler, *toldWatches, error) {
	// One for all: Helm makes a client for each object.
	rights := &rest.Config{Host: "http://" + l.Space, UserAgent: Name, QPS: -1, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, gateNetwork, "")
		}, MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns}}
	own := rest.CopyConfig(rights)
	own.Timeout = requestTimeout
	watches := &toldWatches{told: l.Told}
	log := logrus.New()
	log.Out = io.Discard // what a tenant's chart says is said in the HelmChart
	r := &reconcile.Reconciler{Space: l.Space, Rights: rights, Watches: watches, Log: logrus.NewEntry(log),
		Archives: archive.NewBy(archive.Dial(dial)), Tries: func(types.NamespacedName) int { return l.Tries }}
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, nil, fmt.Errorf("making a client: %w", err)
	}
	if err := r.Reach(own, client); err != nil {
		return nil, nil, err
	}
	r.Events = reconcile.DirectEvents(ctx, r.Core)
	return r, watches, nil
}

// toldWatches know what the server has told, and remember what it is to watch.
type toldWatches struct {
	told    reconcile.Told
	secrets []string
}

// HasChart implements reconcile.Watches.
func (w *toldWatches) HasChart(types.NamespacedName) bool { return w.told.UID != "" }

// Behind implements reconcile.Watches.
func (w *toldWatches) Behind(read metav1.Object) bool { return w.told.NewerThan(read) }

// Configs implements reconcile.Watches: the server watches them all.
func (w *toldWatches) Configs() error { return nil }

// Secrets implements reconcile.Watches.
func (w *toldWatches) Secrets(_ types.NamespacedName, names map[string]bool) error {
	w.secrets = slices.Sorted(maps.Keys(names))
	w.secrets = w.secrets[:min(len(w.secrets), maxSecrets)]
	return nil
}
