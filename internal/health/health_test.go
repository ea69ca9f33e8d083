package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/component"
)

func TestTableIsComplete(t *testing.T) {
	seen := map[Code]bool{}
	for _, c := range Conditions() {
		if seen[c.Code] || c.Title == "" || c.Cause == "" || c.Fix == "" ||
			c.Severity != Warning && c.Severity != Error {
			t.Errorf("condition %q is incomplete or there twice", c.Code)
		}
		seen[c.Code] = true
	}
	for _, c := range Conditions() {
		for _, d := range c.DependsOn {
			if !seen[d] || d == c.Code {
				t.Errorf("condition %q depends on %q", c.Code, d)
			}
		}
	}
}

func at(r *Registry) *time.Time {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r.now = func() time.Time { return now }
	return &now
}

func codes(r *Registry) string {
	var out []string
	for _, p := range r.Problems() {
		out = append(out, strings.TrimSuffix(string(p.Code)+"/"+p.Subject, "/"))
	}
	return strings.Join(out, " ")
}

func TestWhatIsShown(t *testing.T) {
	r := NewRegistry()
	now := at(r)
	expect := func(when, want string) {
		t.Helper()
		if got := codes(r); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	r.Set(DatastoreSlow, "", "a")
	expect("at once", "")
	*now = now.Add(59 * time.Second)
	r.Set(DatastoreSlow, "", "b")
	expect("before its time", "")
	*now = now.Add(time.Second)
	expect("after its time", "datastore-slow")
	r.Set(DatastoreUnreachable, "", "c")
	expect("explained by another, which is too new to be shown", "")
	*now = now.Add(10 * time.Second)
	expect("explained by another", "datastore-unreachable")
	r.Clear(DatastoreUnreachable, "")
	expect("after the other has gone", "datastore-slow")
	r.Clear(DatastoreSlow, "")
	r.Set(DatastoreSlow, "", "d")
	expect("after a gap", "")

	r.Set(ComponentRestarting, "b", "")
	r.Set(CertificateExpired, "y", "")
	r.Set(ComponentRestarting, "a", "")
	expect("several, in order", "certificate-expired/y component-restarting/a component-restarting/b")
	r.Keep(ComponentRestarting, []string{"b"})
	expect("after one is no longer there", "certificate-expired/y component-restarting/b")
}

func TestDisk(t *testing.T) {
	const gib = 1 << 30
	for _, tc := range []struct {
		free, total uint64
		readOnly    bool
		want        string
	}{
		{50 * gib, 100 * gib, false, ""},
		{30 * gib, 1000 * gib, false, ""}, // a small part, and yet enough
		{9 * gib, 100 * gib, false, "disk-almost-full/d"},
		{64 << 20, 100 * gib, false, "disk-full/d"},
		{50 * gib, 100 * gib, true, "disk-read-only/d"},
	} {
		r := NewRegistry()
		now := at(r)
		disk(r, "d", tc.free, tc.total, tc.readOnly)
		*now = now.Add(time.Hour)
		if got := codes(r); got != tc.want {
			t.Errorf("%d of %d, read-only %v: %q, want %q", tc.free, tc.total, tc.readOnly, got, tc.want)
		}
	}
}

func TestClockIsSet(t *testing.T) {
	r := NewRegistry()
	wall, running := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), time.Hour
	check := clock(func() (time.Time, time.Duration) { return wall, running })
	step := func(by, passed time.Duration) string {
		wall, running = wall.Add(by), running+passed
		check(t.Context(), r)
		return codes(r)
	}
	step(0, 0)
	if got := step(16*time.Second, 15*time.Second); got != "" {
		t.Errorf("a second of difference is %q", got)
	}
	if got := step(-time.Hour, 15*time.Second); got != "clock-jumped" {
		t.Errorf("an hour back is %q", got)
	}
	if got := step(5*time.Minute, 5*time.Minute); got != "clock-jumped" {
		t.Errorf("soon afterwards it is %q", got)
	}
	if got := step(6*time.Minute, 6*time.Minute); got != "" {
		t.Errorf("later it is %q", got)
	}
}

func TestComponents(t *testing.T) {
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	t.Cleanup(func() { group.Stop() }) //nolint:errcheck
	fail := make(chan error)
	group.Start(t.Context(), component.Component{Name: "one", Run: func(ctx context.Context, ready func()) error {
		ready()
		select {
		case err := <-fail:
			return err
		case <-ctx.Done():
			return nil
		}
	}})
	if err := group.Wait(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	r := NewRegistry()
	check := Components(group.States, nil)
	check(t.Context(), r)
	if got := codes(r); got != "" {
		t.Errorf("of a healthy component: %q", got)
	}
	fail <- errors.New("boom\nmore")
	for group.States()[0].Restarts == 0 {
		time.Sleep(time.Millisecond)
	}
	check(t.Context(), r)
	p := r.Problems()
	if len(p) != 1 || p[0].Code != ComponentRestarting || !strings.HasSuffix(p[0].Detail, "boom") {
		t.Errorf("after its end: %+v", p)
	}
}

// TestACheckThatIsMade: who asks meanwhile waits for its end, and not for one
// that hangs.
func TestACheckThatIsMade(t *testing.T) {
	release := make(chan struct{})
	made := 0
	c := &named{check: func(context.Context, *Registry) { made++; <-release }}
	first := c.start(t.Context(), nil)
	if second := c.start(t.Context(), nil); second == nil || second != first {
		t.Error("who asks while a check is made does not wait for its end")
	}
	c.mu.Lock()
	c.began = c.began.Add(-patience)
	c.mu.Unlock()
	if c.start(t.Context(), nil) != nil {
		t.Error("who asks waits for a check that hangs")
	}
	close(release)
	<-first
	<-c.start(t.Context(), nil)
	if made != 2 {
		t.Errorf("the check was made %d times, want 2", made)
	}
}

func TestMonitorTellsOfChanges(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	dir, err := os.MkdirTemp("", "health") // short: the name of a socket is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck
	m := NewMonitor(Options{Report: Report{Mode: "server", Node: "n1"}, Socket: Socket(dir),
		Log: logrus.WithField("component", Name)})
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	m.Add("one that hangs", func(context.Context, *Registry) { <-hang })
	m.Add("control groups", func(_ context.Context, r *Registry) {
		r.Report(broken.Load(), CgroupMissing, "", "pids")
	})
	client := fake.NewClientset()
	m.OnChange(Events(client.CoreV1(), scheme.Scheme, AboutNode("n1"), "n1"))

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() { done <- m.run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-ready
	if info, err := os.Stat(filepath.Join(dir, "health.sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	ask := func() Report {
		t.Helper()
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				return net.Dial("unix", Socket(dir))
			}}}
		resp, err := c.Get("http://a4s" + Path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out Report
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if r := ask(); r.Node != "n1" || len(r.Problems) != 1 || r.Problems[0].Code != CgroupMissing {
		t.Errorf("the report is %+v", r)
	}
	if v := metric(t, m, "cgroup-controllers-missing"); v != 1 {
		t.Errorf("the metric is %v, want 1", v)
	}
	broken.Store(false)
	if r := ask(); len(r.Problems) != 0 {
		t.Errorf("afterwards the report is %+v", r)
	}
	if v := metric(t, m, "cgroup-controllers-missing"); v != 0 {
		t.Errorf("afterwards the metric is %v, want 0", v)
	}
	var reasons []string
	for range 1000 {
		list, err := client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reasons = nil
		for _, e := range list.Items {
			reasons = append(reasons, e.Type+" "+e.Reason+" "+e.InvolvedObject.Kind+" "+e.InvolvedObject.Name)
		}
		if len(reasons) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	slices.Sort(reasons)
	if want := []string{corev1.EventTypeNormal + " CgroupControllersMissingSolved Node n1",
		corev1.EventTypeWarning + " CgroupControllersMissing Node n1"}; !slices.Equal(reasons, want) {
		t.Errorf("events are %q, want %q", reasons, want)
	}
}

// metric is what is exported of a condition.
func metric(t *testing.T, m *Monitor, code string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{m})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, v := range f.GetMetric() {
			for _, l := range v.GetLabel() {
				if f.GetName() == "a4s_health_condition" && l.GetName() == "code" && l.GetValue() == code {
					return v.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("there is no metric of %s", code)
	return 0
}

func TestReadOnlyAfterAnError(t *testing.T) {
	const mounts = `36 35 8:1 / / rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro
40 36 7:0 / /var/lib/a4s rw,relatime shared:5 - ext4 /dev/loop0 rw,errors=remount-ro,emergency_ro
`
	for device, want := range map[string]bool{"8:1": false, "7:0": true, "7:1": false} {
		if got := emergencyIn(mounts, device); got != want {
			t.Errorf("device %s: %t, want %t", device, got, want)
		}
	}
}

// What a silent monitor of another process finds is as if it were found here, and
// gone when that process is.
func TestOfAnotherProcess(t *testing.T) {
	dir, err := os.MkdirTemp("", "health") // short: the name of a socket is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck
	other := NewMonitor(Options{Socket: Socket(dir), Silent: true, Log: logrus.WithField("component", Name),
		States: func() []component.State {
			return []component.State{{Name: "kubelet", Ready: true}}
		}})
	var looked atomic.Int64
	other.Add("names", func(_ context.Context, r *Registry) { looked.Add(1); r.Set(NodeNotReady, "n1", "why") })
	ctx, cancel := context.WithCancel(t.Context())
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { done <- other.run(ctx, func() { close(ready) }) }()
	<-ready
	r := NewRegistry()
	now := at(r)
	check := Of(func(ctx context.Context) (*Report, error) { return Ask(ctx, Socket(dir), Path) })
	check(t.Context(), r)
	*now = now.Add(time.Hour)
	if got := codes(r); got != "node-not-ready/n1" {
		t.Errorf("of another process: %q", got)
	}
	before := looked.Load()
	state, err := Ask(t.Context(), Socket(dir), StatePath)
	if err != nil || len(state.Components) != 1 || state.Components[0].Name != "kubelet" || state.Ready ||
		looked.Load() != before {
		t.Errorf("its state is %+v, %v", state, err)
	}
	other.Started()
	if state, err = Ask(t.Context(), Socket(dir), StatePath); err != nil || !state.Ready {
		t.Errorf("when it has started: %+v, %v", state, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	check(t.Context(), r)
	if got := codes(r); got != "" {
		t.Errorf("after its end: %q", got)
	}
}

// TestAComponentThatDoesNotStart: it is an error at once, with the reason that it gave last.
func TestAComponentThatDoesNotStart(t *testing.T) {
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	t.Cleanup(func() { group.Stop() }) //nolint:errcheck
	runs := make(chan error)
	serve := make(chan struct{})
	group.Start(t.Context(), component.Component{Name: "one", Run: func(ctx context.Context, ready func()) error {
		select {
		case err := <-runs:
			return err
		case <-serve:
			ready()
		case <-ctx.Done():
		}
		<-ctx.Done()
		return nil
	}})
	r := NewRegistry()
	check := Components(group.States, nil)
	for i, want := range []string{"component-restarting/one", "component-restarting/one",
		"component-does-not-start/one"} {
		runs <- fmt.Errorf("reason %d\nmore", i)
		for group.States()[0].Failures != i+1 {
			time.Sleep(time.Millisecond)
		}
		check(t.Context(), r)
		if got := codes(r); got != want {
			t.Errorf("after end %d: %q, want %q", i+1, got, want)
		}
	}
	p := r.Problems()
	if len(p) != 1 || p[0].Severity != Error || p[0].Detail != "3 times in a row, the last time because: reason 2" {
		t.Errorf("%+v", p)
	}
	close(serve)
	if err := group.Wait(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	check(t.Context(), r)
	if got := codes(r); got != "component-restarting/one" {
		t.Errorf("when it serves: %q", got)
	}
}

// TestFailuresHaveConditionsOfTheirOwn: a component with a condition of its own is explained
// by that, and one that is gone by nothing.
func TestFailuresHaveConditionsOfTheirOwn(t *testing.T) {
	states := []component.State{{Name: "one", Restarts: 5, Failures: 5, LastError: "boom"},
		{Name: "isolation", Restarts: 5, Failures: 5, LastError: "boom"}}
	r := NewRegistry()
	now := at(r)
	check := Components(func() []component.State { return states },
		map[string]Code{"isolation": IsolationNotEnforced})
	check(t.Context(), r)
	*now = now.Add(time.Minute)
	check(t.Context(), r)
	if got := codes(r); got != "isolation-not-enforced/isolation component-does-not-start/one "+
		"component-restarting/isolation" {
		t.Errorf("%q", got)
	}
	states = nil
	check(t.Context(), r)
	if got := codes(r); got != "" {
		t.Errorf("when they are gone: %q", got)
	}
}

// What is not there any more, as it is in a process that ended, is no problem.
func TestComponentsThatAreGone(t *testing.T) {
	states := []component.State{{Name: "kubelet", Restarts: 1, LastError: "boom"}}
	r := NewRegistry()
	now := at(r)
	check := Components(func() []component.State { return states }, nil)
	check(t.Context(), r)
	*now = now.Add(5 * time.Minute)
	if got := codes(r); got != "component-not-ready/kubelet component-restarting/kubelet" {
		t.Errorf("of a broken component: %q", got)
	}
	states = nil
	check(t.Context(), r)
	if got := codes(r); got != "" {
		t.Errorf("when it is gone: %q", got)
	}
}
