package renewal

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
)

// ReloadEvery is how often clients of the API look whether their certificate
// was renewed. Upstream's five minutes are more than the life of some.
const ReloadEvery = 5 * time.Second

// MinLife is the shortest life of a certificate with which clients have the
// new one in use before the old one ends: the last third is 10 s.
const MinLife = 30 * time.Second

const (
	// maxWait bounds the time between two looks at the files. It is short
	// for the sake of machines whose clock is set or that were suspended.
	maxWait = time.Hour
	// minWait bounds it from below.
	minWait = time.Second
)

// Options say what is renewed.
type Options struct {
	// Name of the component.
	Name string
	// Files are the certificates to watch.
	Files []string
	// Renew renews the certificates that are due, or all of them.
	Renew func(ctx context.Context) error
	// Log is where progress goes.
	Log *logrus.Entry
	// Now replaces the clock; nil means time.Now.
	Now func() time.Time
}

// New returns the component that renews certificates in time.
func New(o Options) component.Component {
	if o.Now == nil {
		o.Now = time.Now
	}
	return component.Component{Name: o.Name, Run: o.run}
}

func (o Options) run(ctx context.Context, ready func()) error {
	ready()
	for {
		wait, err := o.look(ctx)
		if err != nil && ctx.Err() == nil {
			o.Log.WithError(err).Error("cannot renew certificates; it is tried again")
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// look renews what is due and returns when to look again.
func (o Options) look(ctx context.Context) (time.Duration, error) {
	until, left, err := o.due()
	if err == nil && until > 0 {
		return wait(until), nil
	}
	err = errors.Join(err, o.Renew(ctx))
	if err == nil {
		until, left, err = o.due()
	}
	if err == nil && until > 0 {
		return wait(until), nil
	}
	// The part of the life that is left is enough for many attempts, and a
	// server that is away is not asked by all its nodes at once.
	return wait(max(0, left) / 10), err
}

// wait bounds a pause. Nodes that joined together do not renew together.
func wait(d time.Duration) time.Duration {
	d = min(max(d, minWait), maxWait)
	return d + rand.N(d/20)
}

// due returns how long it is until the first certificate has to be renewed,
// and until it ends.
func (o Options) due() (until, left time.Duration, err error) {
	now := o.Now()
	until, left = maxWait, maxWait
	for _, file := range o.Files {
		cert, err := pki.ReadCert(file)
		if err != nil {
			return 0, 0, err
		}
		until = min(until, pki.RenewAt(cert).Sub(now))
		left = min(left, cert.NotAfter.Sub(now))
	}
	return until, left, nil
}
