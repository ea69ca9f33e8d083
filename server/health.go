package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantclient"
	"github.com/a4s-io/a4s/server/cluster/encryption"
)

const (
	// slowRead and slowSync are from when on a datastore is called slow: API
	// requests are then felt to hang.
	slowRead = time.Second
	slowSync = 100 * time.Millisecond
	// scrapeTimeout bounds what a scrape of metrics asks the API.
	scrapeTimeout = 3 * time.Second
)

// syncMetric is embedded etcd's, of how long flushes of its log take.
const syncMetric = "etcd_disk_wal_fsync_duration_seconds"

// serverHealth is what checks of the control plane remember.
type serverHealth struct {
	monitor *health.Monitor // nil unless the process has one

	mu        sync.Mutex
	store     encryption.Store // nil until it was asked
	syncs     uint64
	syncTime  float64
	snapshots struct {
		failures float64
		took     time.Duration
		last     time.Time // that succeeded
	}
}

// Health lets a monitor watch over the control plane.
func (p *Plan) Health(m *health.Monitor) {
	p.health.monitor = m
	uses := func() []pki.Use { return p.pki.Uses() }
	m.Add("datastore", p.checkDatastore)
	m.Add("flushes of the datastore", p.checkFlushes)
	m.Add("room of the datastore", p.checkRoom)
	m.Add("secrets encryption", p.checkEncryption)
	m.Add("certificate authorities", p.checkAuthorities)
	m.AddMetrics(health.CertificateMetrics(uses), p.roomMetrics, p.health.snapshotMetrics, p.tenantMetrics)
}

// startHealth begins what needs certificates and a client.
func (p *Plan) startHealth(client kubernetes.Interface) {
	m := p.health.monitor
	if m == nil {
		return
	}
	m.Add("certificates of the server", health.Certificates(func() []pki.Use { return p.pki.Uses() }))
	about := health.AboutNode(p.cfg.Agent.NodeName)
	if p.cfg.DisableAgent {
		about = health.AboutSystem()
	}
	m.OnChange(health.Events(client.CoreV1(), scheme.Scheme, about, p.cfg.Agent.NodeName))
}

// checkDatastore reads from the datastore as the API server does.
func (p *Plan) checkDatastore(ctx context.Context, r *health.Registry) {
	h := &p.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.encryption == nil {
		return // it is about to start
	}
	if h.store == nil {
		store, err := p.openStore()
		if err != nil {
			r.Set(health.DatastoreUnreachable, "", err.Error())
			return
		}
		h.store = store
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	started := time.Now()
	_, err := h.store.Get(ctx, "health")
	took := time.Since(started)
	r.Report(err != nil, health.DatastoreUnreachable, "", fmt.Sprint(err))
	if err != nil {
		return
	}
	r.Report(took > slowRead, health.DatastoreSlow, "reads", "one took "+took.Round(time.Millisecond).String())
}

// checkFlushes looks at what embedded etcd measures. It is a check of its own:
// metrics come from all parts of the process, and one may hang.
func (p *Plan) checkFlushes(_ context.Context, r *health.Registry) {
	sync := p.health.averageSync(prometheus.DefaultGatherer)
	r.Report(sync > slowSync, health.DatastoreSlow, "flushes to disk", "they took "+sync.Round(time.Millisecond).String()+" on average")
}

// almostFull is from when on a datastore is called so, in percent of its quota.
const almostFull = 80

// roomy is a datastore that knows what it may take.
type roomy interface{ Room() etcd.Room }

// checkRoom looks at how full embedded etcd is.
func (p *Plan) checkRoom(_ context.Context, r *health.Registry) {
	if store, ok := p.store.(roomy); ok {
		reportRoom(store.Room(), r.Report)
	}
}

func reportRoom(room etcd.Room, report func(holds bool, code health.Code, subject, detail string)) {
	detail := fmt.Sprintf("%d of %d MiB, of which %d MiB hold something", room.Size>>20, room.Quota>>20, room.InUse>>20)
	report(room.Full, health.DatastoreFull, "", detail)
	report(room.Percent() >= almostFull, health.DatastoreAlmost, "", detail)
}

func (p *Plan) roomMetrics(add func(name, help string, value float64, labels map[string]string)) {
	if store, ok := p.store.(roomy); ok {
		if room := store.Room(); room.Quota > 0 {
			add("datastore_used_ratio", "How much of its quota the file of embedded etcd takes, from 0 to 1.", float64(room.Size)/float64(room.Quota), nil)
		}
	}
}

// datastoreFill is what the limits of tenants have to know of the datastore, nil
// if that has no bound.
func (p *Plan) datastoreFill() func() (used, quota int64) {
	store, ok := p.store.(roomy)
	if !ok {
		return nil
	}
	return func() (int64, int64) {
		room := store.Room()
		return room.InUse, room.Quota
	}
}

// averageSync is how long flushes have taken since the last call, 0 if there
// were none in this process.
func (h *serverHealth) averageSync(g prometheus.Gatherer) time.Duration {
	families, _ := g.Gather() // what can be gathered is returned despite errors
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range families {
		if f.GetName() != syncMetric || f.GetType() != dto.MetricType_HISTOGRAM || len(f.GetMetric()) == 0 {
			continue
		}
		v := f.GetMetric()[0].GetHistogram()
		n, total := v.GetSampleCount()-h.syncs, v.GetSampleSum()-h.syncTime
		h.syncs, h.syncTime = v.GetSampleCount(), v.GetSampleSum()
		if n == 0 {
			return 0
		}
		return time.Duration(total / float64(n) * float64(time.Second))
	}
	return 0
}

func (p *Plan) checkEncryption(ctx context.Context, r *health.Registry) {
	p.health.mu.Lock()
	e := p.encryption
	p.health.mu.Unlock()
	r.Report(e != nil && e.Unfinished(ctx), health.EncryptionUnfinished, "", "")
}

func (p *Plan) checkAuthorities(_ context.Context, r *health.Registry) {
	p.health.mu.Lock()
	a := p.authorities
	p.health.mu.Unlock()
	r.Report(a != nil && a.Waiting(), health.AuthoritiesWaiting, "", "")
}

// problems are those of this process.
func (h *serverHealth) problems() []joinapi.Problem {
	out := []joinapi.Problem{}
	if h.monitor == nil {
		return out
	}
	for _, p := range h.monitor.Problems() {
		out = append(out, joinapi.Problem{
			Code: string(p.Code), Severity: string(p.Severity), Title: p.Title, Subject: p.Subject, Detail: p.Detail,
			Cause: p.Cause, Fix: p.Fix, Since: p.Since,
		})
	}
	return out
}

// snapshotTaken is told how a scheduled snapshot ended.
func (h *serverHealth) snapshotTaken(took time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.snapshots.took = took
	if err != nil {
		h.snapshots.failures++
	} else {
		h.snapshots.last = time.Now()
	}
	if h.monitor != nil {
		h.monitor.Report(err != nil, health.SnapshotFailed, "", fmt.Sprint(err))
	}
}

func (h *serverHealth) snapshotMetrics(add func(name, help string, value float64, labels map[string]string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.snapshots
	add("snapshot_failures", "How many scheduled snapshots failed since the start.", s.failures, nil)
	if s.took > 0 {
		add("snapshot_duration_seconds", "How long the last scheduled snapshot took.", s.took.Seconds(), nil)
	}
	if !s.last.IsZero() {
		add("snapshot_last_success_timestamp_seconds", "When the last scheduled snapshot succeeded.", float64(s.last.Unix()), nil)
	}
}

// tenantMetrics count tenants without reading them.
func (p *Plan) tenantMetrics(add func(name, help string, value float64, labels map[string]string)) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	client, err := tenantclient.New(p.restConfig(p.pki.Admin), nil)
	if err != nil {
		return
	}
	list, err := client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	add("tenants", "How many tenants there are, the system among them.", float64(n), nil)
}
