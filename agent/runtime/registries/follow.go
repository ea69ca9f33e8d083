package registries

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/health"
)

// Name is the name of the component that follows the file.
const Name = "registries"

// every is how often the file is looked at. It is used when it has been the same twice, so that
// nobody's half-written file is.
const every = 2 * time.Second

// Followed is a registries file that is read again when it changes. What cannot be used changes
// nothing: what the file said before holds.
type Followed struct {
	file string
	log  *logrus.Entry

	mu      sync.Mutex
	current *Config
	// dir is where containerd reads about its hosts, given the credentials that it has until it
	// starts again. Neither is there before it has started.
	dir   string
	given map[string]Auth
	// broken is why the file is not used as it is.
	broken error
	// seen is what the file was like, and settling that it was not so when it was looked at before.
	seen     string
	settling bool
}

// Follow reads and checks a file as Load does. The component of the result reads it again.
func Follow(file string) (*Followed, error) {
	f := &Followed{file: file, log: logrus.WithField("component", Name)}
	f.seen = f.state()
	var err error
	f.current, err = Load(file)
	return f, err
}

// Fixed is what never changes.
func Fixed(c *Config) *Followed { return &Followed{current: c} }

// Config is what the file said when it was right last.
func (f *Followed) Config() *Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current
}

// Begin gives a containerd that is about to start its hosts, in a directory of its own, and
// returns what else is for it.
func (f *Followed) Begin(dir string) (*Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.current.Write(dir); err != nil {
		return nil, err
	}
	f.dir, f.given = dir, f.current.Auths()
	return f.current, nil
}

// Component reads the file again when it changes.
func (f *Followed) Component() component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		for ticker := time.NewTicker(every); ; {
			select {
			case <-ticker.C:
				f.look()
			case <-ctx.Done():
				ticker.Stop()
				return nil
			}
		}
	}}
}

// look reads the file if it has changed, or could not be used.
func (f *Followed) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := f.state(); {
	case now != f.seen:
		f.seen, f.settling = now, true
		return
	case !f.settling && f.broken == nil:
		return
	}
	changed := f.settling
	f.settling = false
	c, err := Load(f.file)
	if err == nil && f.dir != "" {
		err = c.Write(f.dir)
	}
	if err != nil {
		if f.broken == nil || changed || err.Error() != f.broken.Error() {
			f.log.WithError(err).Error("the registries file cannot be used; what it said before holds")
		}
		f.broken = err
		return
	}
	f.current, f.broken = c, nil
	f.log.WithField("file", f.file).Info("the registries file was read again")
	if hosts := f.waiting(); len(hosts) > 0 {
		f.log.WithField("hosts", strings.Join(hosts, ", ")).
			Warn("credentials of registries have changed, which containerd reads when a4s starts")
	}
}

// state tells whether the file is another one than before.
func (f *Followed) state() string {
	content, err := os.ReadFile(f.file)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(sha256.Sum256(content))
}

// waiting are the hosts of which containerd has other credentials than the file.
func (f *Followed) waiting() (hosts []string) {
	if f.dir == "" {
		return nil
	}
	now := f.current.Auths()
	for _, host := range slices.Sorted(maps.Keys(now)) {
		if was, ok := f.given[host]; !ok || was != now[host] {
			hosts = append(hosts, host)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(f.given)) {
		if _, ok := now[host]; !ok {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Check reports a file that is not used, or not in full.
func (f *Followed) Check(_ context.Context, r *health.Registry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Report(f.broken != nil, health.RegistriesUnusable, f.file, fmt.Sprint(f.broken))
	hosts := f.waiting()
	r.Report(len(hosts) > 0, health.RegistriesWaiting, f.file, strings.Join(hosts, ", "))
}
