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
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/cluster/cas"
	"github.com/a4s-io/a4s/server/cluster/encryption"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
)

const (
	// slowRead and slowSync are from when on a datastore is called slow: API
	// requests are then felt to hang.
	slowRead = time.Second
	slowSync = 100 * time.Millisecond
	// slowScheduling is from when on the scheduler is called slow: the published SLO is
	// 5 s until a pod runs.
	slowScheduling = 5 * time.Second
	// scrapeTimeout bounds what a scrape of metrics asks the API.
	scrapeTimeout = 3 * time.Second
)

// syncMetric is embedded etcd's, of how long flushes of its log take.
const syncMetric = "etcd_disk_wal_fsync_duration_seconds"

// serverHealth is what checks of the control plane remember.
type serverHealth struct {
	cfg       *config.Server
	files     *files
	datastore *store
	monitor   *health.Monitor // nil unless the process has one

	mu         sync.Mutex
	encryption *secretsEncryption // nil until the datastore runs, as is cas
	cas        *cas.Controller
	client     encryption.Store // of the datastore, nil until it was asked
	syncs      uint64
	syncTime   float64
	scheduled  uint64 // pods
	waited     float64
	snapshots  struct {
		failures float64
		took     time.Duration
		last     time.Time // that succeeded
	}
}

// watch lets a monitor watch over the control plane.
func (h *serverHealth) watch(m *health.Monitor) {
	h.monitor = m
	uses := func() []pki.Use { return h.files.pki.Uses() }
	m.Add("datastore", h.checkDatastore)
	m.Add("flushes of the datastore", h.checkFlushes)
	m.Add("room of the datastore", h.checkRoom)
	m.Add("scheduler", func(_ context.Context, r *health.Registry) { h.checkScheduler(r.Report, scheduler.Waited) })
	m.Add("secrets encryption", h.checkEncryption)
	m.Add("certificate authorities", h.checkCAs)
	m.AddMetrics(health.CertificateMetrics(uses), h.roomMetrics, h.snapshotMetrics, h.tenantMetrics)
}

// registry is where problems are reported, nil without a monitor.
func (h *serverHealth) registry() *health.Registry {
	if h.monitor == nil {
		return nil
	}
	return h.monitor.Registry
}

// start begins what needs certificates and a client.
func (h *serverHealth) start(client kubernetes.Interface) {
	m := h.monitor
	if m == nil {
		return
	}
	m.Add("certificates of the server", health.Certificates(func() []pki.Use { return h.files.pki.Uses() }))
	about := health.AboutNode(h.cfg.Agent.NodeName)
	if h.cfg.DisableAgent {
		about = health.AboutSystem()
	}
	m.OnChange(health.Events(client.CoreV1(), scheme.Scheme, about, h.cfg.Agent.NodeName))
}

// datastoreRuns reports what there is once the datastore runs.
func (h *serverHealth) datastoreRuns(keys *secretsEncryption, c *cas.Controller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.encryption, h.cas = keys, c
}

// checkDatastore reads from the datastore as the API server does.
func (h *serverHealth) checkDatastore(ctx context.Context, r *health.Registry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.encryption == nil {
		return // it is about to start
	}
	if h.client == nil {
		store, err := h.datastore.open()
		if err != nil {
			r.Set(health.DatastoreUnreachable, "", err.Error())
			return
		}
		h.client = store
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	started := time.Now()
	_, err := h.client.Get(ctx, "health")
	took := time.Since(started)
	r.Report(err != nil, health.DatastoreUnreachable, "", fmt.Sprint(err))
	if err != nil {
		return
	}
	r.Report(took > slowRead, health.DatastoreSlow, "reads", "one took "+took.Round(time.Millisecond).String())
}

// checkFlushes looks at what embedded etcd measures. It is a check of its own:
// metrics come from all parts of the process, and one may hang.
func (h *serverHealth) checkFlushes(_ context.Context, r *health.Registry) {
	sync := h.averageSync(prometheus.DefaultGatherer)
	r.Report(sync > slowSync, health.DatastoreSlow, "flushes to disk",
		"they took "+sync.Round(time.Millisecond).String()+" on average")
}

// checkScheduler looks at how long pods have waited for the scheduler since the last call.
func (h *serverHealth) checkScheduler(
	report func(holds bool, code health.Code, subject, detail string), waited func() (pods uint64, seconds float64),
) {
	pods, seconds := waited()
	h.mu.Lock()
	n, total := pods-h.scheduled, seconds-h.waited
	h.scheduled, h.waited = pods, seconds
	h.mu.Unlock()
	average := time.Duration(0)
	if n > 0 {
		average = time.Duration(total / float64(n) * float64(time.Second))
	}
	report(average > slowScheduling, health.SchedulerSlow, "",
		fmt.Sprintf("%d pods waited %s on average", n, average.Round(time.Millisecond)))
}

// almostFull is from when on a datastore is called so, in percent of its quota.
const almostFull = 80

// roomy is a datastore that knows what it may take.
type roomy interface{ Room() etcd.Room }

// checkRoom looks at how full embedded etcd is.
func (h *serverHealth) checkRoom(_ context.Context, r *health.Registry) {
	if store, ok := h.datastore.Datastore.(roomy); ok {
		reportRoom(store.Room(), r.Report)
	}
}

func reportRoom(room etcd.Room, report func(holds bool, code health.Code, subject, detail string)) {
	detail := fmt.Sprintf("%d of %d MiB, of which %d MiB hold something", room.Size>>20,
		room.Quota>>20, room.InUse>>20)
	report(room.Full, health.DatastoreFull, "", detail)
	report(room.Percent() >= almostFull, health.DatastoreAlmost, "", detail)
}

func (h *serverHealth) roomMetrics(add func(name, help string, value float64, labels map[string]string)) {
	if store, ok := h.datastore.Datastore.(roomy); ok {
		if room := store.Room(); room.Quota > 0 {
			add("datastore_used_ratio", "How much of its quota the file of embedded etcd takes, from 0 to 1.",
				float64(room.Size)/float64(room.Quota), nil)
		}
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

func (h *serverHealth) checkEncryption(ctx context.Context, r *health.Registry) {
	h.mu.Lock()
	e := h.encryption
	h.mu.Unlock()
	r.Report(e != nil && e.Unfinished(ctx), health.EncryptionUnfinished, "", "")
}

func (h *serverHealth) checkCAs(_ context.Context, r *health.Registry) {
	h.mu.Lock()
	c := h.cas
	h.mu.Unlock()
	r.Report(c != nil && c.Waiting(), health.CAsWaiting, "", "")
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
		add("snapshot_last_success_timestamp_seconds", "When the last scheduled snapshot succeeded.",
			float64(s.last.Unix()), nil)
	}
}

// tenantMetrics count tenants without reading them.
func (h *serverHealth) tenantMetrics(add func(name, help string, value float64, labels map[string]string)) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	client, err := tenantapi.NewClient(h.files.restConfig(h.files.pki.Admin), nil)
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
