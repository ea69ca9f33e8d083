package load

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
)

const (
	// prefix begins the names of the ConfigMaps, which have label.
	prefix = "a4s-load-"
	label  = "a4s.io/server-load"
	// measuredAt is an annotation with when the rates were reckoned.
	measuredAt = "a4s.io/measured-at"
	// ratesKey is where the rates are, by tenant, as JSON.
	ratesKey = "rates.json"

	// publishEvery is how often a server publishes.
	publishEvery = time.Minute
	// maxPublished tenants are published, those who ask for most: what the others ask
	// for moves no boundary.
	maxPublished = 1000
	// counts is how long what was published does: a server that stopped has no load.
	counts = 5 * time.Minute
	// most is more than any server does in a second.
	most = 1e12
)

// Publisher publishes what one server counts.
type Publisher struct {
	Client   kubernetes.Interface
	Counters *Counters
	// Server is the name of the server, and Lease that of its Lease in kube-system: with
	// it goes what was published.
	Server, Lease string
	Log           *logrus.Entry
}

// Component publishes until it ends.
func (p *Publisher) Component() component.Component {
	return component.Component{Name: "tenant-load", Run: func(ctx context.Context, ready func()) error {
		ready()
		if err := p.resume(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.Log.WithError(err).Warn("What tenants asked this server for before its start is not known")
		}
		for last := time.Now(); component.Sleep(ctx, publishEvery) == nil; {
			now := time.Now()
			rates := p.Counters.reckon(now.Sub(last))
			last = now
			if err := p.publish(ctx, rates, now); err != nil && ctx.Err() == nil {
				p.Log.WithError(err).Warn("What tenants ask for is not published now; this is tried again")
			}
		}
		return nil
	}}
}

// resume goes on with what the server published before it was started again, a short time
// ago: otherwise it would seem to have no load, and tenants would move for that.
func (p *Publisher) resume(ctx context.Context, now time.Time) error {
	m, err := p.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, prefix+p.Server, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading what was published: %w", err)
	}
	for tenant, r := range published(m, now) {
		p.Counters.resume(tenant, r)
	}
	return nil
}

func (p *Publisher) publish(ctx context.Context, rates Rates, now time.Time) error {
	text, err := json.Marshal(greatest(rates, maxPublished))
	if err != nil {
		return fmt.Errorf("encoding the rates: %w", err)
	}
	lease, err := p.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, p.Lease, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Lease of this server: %w", err)
	}
	m := corev1apply.ConfigMap(prefix+p.Server, metav1.NamespaceSystem).
		WithLabels(map[string]string{label: ""}).
		WithAnnotations(map[string]string{measuredAt: now.UTC().Format(time.RFC3339)}).
		WithOwnerReferences(metav1apply.OwnerReference().WithAPIVersion("coordination.k8s.io/v1").
			WithKind("Lease").WithName(lease.Name).WithUID(lease.UID)).
		WithData(map[string]string{ratesKey: string(text)})
	_, err = p.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Apply(ctx, m,
		metav1.ApplyOptions{FieldManager: "a4s", Force: true})
	if err != nil {
		return fmt.Errorf("storing the rates: %w", err)
	}
	return nil
}

// greatest are the n tenants who ask for most, with rates in three digits.
func greatest(rates Rates, n int) Rates {
	var all Rate
	for _, r := range rates {
		all.Add(r)
	}
	part := func(tenant string) float64 {
		r := rates[tenant]
		return r.Writes/max(all.Writes, leastWrites) + r.WatchBytes/max(all.WatchBytes, leastBytes)
	}
	names := slices.SortedFunc(maps.Keys(rates), func(a, b string) int {
		return cmp.Or(cmp.Compare(part(b), part(a)), cmp.Compare(a, b))
	})
	out := Rates{}
	for _, name := range names[:min(n, len(names))] {
		r := rates[name]
		out[name] = Rate{Writes: math.Round(r.Writes*1000) / 1000, WatchBytes: math.Round(r.WatchBytes)}
	}
	return out
}

// Read adds up what all servers published a short time ago.
func Read(ctx context.Context, client kubernetes.Interface, now time.Time) (Rates, error) {
	list, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, fmt.Errorf("reading what tenants ask for: %w", err)
	}
	sum := Rates{}
	for i := range list.Items {
		for tenant, r := range published(&list.Items[i], now) {
			r.Add(sum[tenant])
			sum[tenant] = r
		}
	}
	return sum, nil
}

// published is what a server published, nothing if that is old or cannot be read: the
// server will do it again.
func published(m *corev1.ConfigMap, now time.Time) Rates {
	at, err := time.Parse(time.RFC3339, m.Annotations[measuredAt])
	if err != nil || now.Sub(at).Abs() > counts {
		return nil
	}
	var rates Rates
	if err := json.Unmarshal([]byte(m.Data[ratesKey]), &rates); err != nil {
		return nil
	}
	for tenant, r := range rates {
		rates[tenant] = Rate{Writes: min(max(r.Writes, 0), most), WatchBytes: min(max(r.WatchBytes, 0), most)}
	}
	return rates
}
