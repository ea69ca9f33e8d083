package health

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/rootsocket"
)

// Name is the name of the component.
const Name = "health"

const (
	// Path is where the socket answers, with what checks that are made then find.
	Path = "/v1/health"
	// StatePath is where it answers at once, without checks.
	StatePath = "/v1/state"
	// every is how often the checks are made, and timeout bounds one of them.
	every   = 15 * time.Second
	timeout = 10 * time.Second
	// patience is for how long the others wait for a check that hangs.
	patience = 4 * time.Second
)

// Socket is where a running a4s tells root about itself.
func Socket(runDir string) string { return filepath.Join(runDir, "health.sock") }

// Check finds out whether conditions hold and tells the registry. It may hang,
// as what it looks at may: the others do not wait for it, and it is not made
// again meanwhile.
type Check func(ctx context.Context, r *Registry)

// named is a check that is made by one goroutine at a time.
type named struct {
	name  string
	check Check

	mu      sync.Mutex
	current chan struct{} // closed when the check ends; nil while it is not made
	began   time.Time     // of current
}

// start makes the check, and returns what is closed at its end. A check that is
// being made is not made twice, but its end is what who asks wants to know;
// unless others have waited for it for long enough: then it returns nil.
func (c *named) start(ctx context.Context, r *Registry) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		if time.Since(c.began) > patience {
			return nil
		}
		return c.current
	}
	ended := make(chan struct{})
	c.current, c.began = ended, time.Now()
	go func() {
		// Not that of who asked, who may go away before it ends.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		c.check(ctx, r)
		c.mu.Lock()
		c.current = nil
		c.mu.Unlock()
		close(ended)
	}()
	return ended
}

// Report is what the socket answers.
type Report struct {
	// Mode is "server" or "agent", Node its name.
	Mode     string    `json:"mode"`
	Node     string    `json:"node"`
	Version  string    `json:"version"`
	DataDir  string    `json:"dataDir"`
	Problems []Problem `json:"problems"`
	// Components are the parts of the process.
	Components []component.State `json:"components,omitempty"`
	// Ready says that the process has started.
	Ready bool `json:"ready,omitempty"`
	// Holdings are for a monitor of another process, see Of.
	Holdings []Holding `json:"holdings,omitempty"`
}

// Options describe the process.
type Options struct {
	// Report is filled with problems when it is asked for.
	Report Report
	// Socket is where to listen; "" is nowhere.
	Socket string
	// States returns the parts of the process for reports; nil leaves them out.
	States func() []component.State
	// Silent is a monitor whose findings another one reports, see Of.
	Silent bool
	Log    *logrus.Entry
}

// Monitor makes the checks and reports what they find.
type Monitor struct {
	*Registry
	o Options

	mu      sync.Mutex
	checks  []*named
	ready   bool
	changes []func(added, gone []Problem)
	metrics []Metrics
	shown   map[subject]Problem
}

// NewMonitor returns a monitor without checks.
func NewMonitor(o Options) *Monitor {
	return &Monitor{Registry: NewRegistry(), o: o, shown: map[subject]Problem{}}
}

// Add adds a check. It is made from the next time on.
func (m *Monitor) Add(name string, check Check) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checks = append(m.checks, &named{name: name, check: check})
}

// OnChange calls f with the problems that are shown now and were not before,
// and with those that are not any more. f is called once at a time.
func (m *Monitor) OnChange(f func(added, gone []Problem)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes = append(m.changes, f)
}

// Component makes the checks until it is stopped, exports metrics and serves
// the socket.
func (m *Monitor) Component() component.Component {
	return component.Component{Name: Name, Run: m.run}
}

func (m *Monitor) run(ctx context.Context, ready func()) error {
	unregister, err := m.export()
	if err != nil {
		return err
	}
	defer unregister()
	failed := make(chan error, 1)
	if m.o.Socket != "" {
		listener, err := rootsocket.Listen(ctx, m.o.Socket)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: m.handler(), ReadHeaderTimeout: timeout}
		go func() { failed <- server.Serve(listener) }()
		defer server.Close() //nolint:errcheck // nothing is left to do about it
	}
	ready()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		m.look(ctx)
		select {
		case <-tick.C:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// look makes all checks at the same time and reports what has changed.
func (m *Monitor) look(ctx context.Context) {
	m.mu.Lock()
	checks := slices.Clone(m.checks)
	m.mu.Unlock()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	type running struct {
		name  string
		ended <-chan struct{}
	}
	var all []running
	for _, c := range checks {
		if ended := c.start(ctx, m.Registry); ended != nil {
			all = append(all, running{c.name, ended})
		}
	}
wait:
	for i, c := range all {
		select {
		case <-c.ended:
		case <-limit.C:
			var left []string
			for _, c := range all[i:] {
				select {
				case <-c.ended:
				default:
					left = append(left, c.name)
				}
			}
			m.o.Log.WithField("checks", left).Info("checks take long; the others go on without them")
			break wait
		case <-ctx.Done():
			break wait
		}
	}
	m.tell()
}

func (m *Monitor) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[subject]Problem{}
	var added, gone []Problem
	for _, p := range m.Problems() {
		k := subject{p.Code, p.Subject}
		now[k] = p
		if _, ok := m.shown[k]; !ok {
			added = append(added, p)
		}
	}
	for k, p := range m.shown {
		if _, ok := now[k]; !ok {
			gone = append(gone, p)
		}
	}
	m.shown = now
	if len(added)+len(gone) == 0 || m.o.Silent {
		return
	}
	for _, p := range added {
		entry := m.o.Log.WithField("code", p.Code)
		if p.Severity == Error {
			entry.Error(p.Line())
		} else {
			entry.Warn(p.Line())
		}
	}
	for _, p := range gone {
		m.o.Log.WithField("code", p.Code).Infof("solved: %s", p.Line())
	}
	for _, f := range m.changes {
		f(added, gone)
	}
}

// Line is the problem in one line.
func (p Problem) Line() string {
	text := p.Title
	if p.Subject != "" {
		text += " (" + p.Subject + ")"
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	return text
}

func (m *Monitor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		m.look(r.Context()) // who asks wants to know of now
		m.report(w)
	})
	mux.HandleFunc("GET "+StatePath, func(w http.ResponseWriter, _ *http.Request) { m.report(w) })
	return mux
}

// Started says that the process has started.
func (m *Monitor) Started() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = true
}

func (m *Monitor) report(w http.ResponseWriter) {
	report := m.o.Report
	m.mu.Lock()
	report.Ready = m.ready
	m.mu.Unlock()
	report.Problems = m.Problems()
	if m.o.States != nil {
		report.Components = m.o.States()
	}
	if m.o.Silent {
		report.Holdings = m.Holdings()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report) // a client that went away does not need it
}
