package renewal

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/a4s-io/a4s/internal/pki"
)

// TestLivesOfCertificates runs the component through lives of real
// certificates on a clock that costs no time.
func TestLivesOfCertificates(t *testing.T) {
	for _, life := range []time.Duration{MinLife, time.Hour, 20 * 24 * time.Hour} {
		t.Run(life.String(), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				opts := pki.Options{SANs: []string{"a"}, Life: life}
				f, err := pki.Ensure(filepath.Join(dir, "tls"), opts)
				if err != nil {
					t.Fatal(err)
				}
				renewals, failures := 0, 3
				logger, hook := logtest.NewNullLogger()
				ctx, cancel := context.WithCancel(t.Context())
				c := New(Options{
					Name: "test", Files: []string{f.Admin.Cert, f.ServingAPIServer.Cert}, Log: logrus.NewEntry(logger),
					Renew: func(context.Context) error {
						cert, err := pki.ReadCert(f.Admin.Cert)
						if err != nil {
							return err
						}
						// Three attempts fail first; what is left then is for the clients.
						if left := time.Until(cert.NotAfter); left < life/10 {
							t.Errorf("renewal %d begins %s before the end", renewals, left)
						}
						if failures > 0 {
							failures--
							return errors.New("not yet")
						}
						renewals++
						_, err = pki.Renew(f.Dir, opts)
						return err
					},
				})
				done := make(chan error)
				go func() { done <- c.Run(ctx, func() {}) }()
				time.Sleep(5*life + life/10)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if renewals < 5 || renewals > 8 {
					t.Errorf("%d renewals in five lives", renewals)
				}
				if n := len(hook.AllEntries()); n != 3 {
					t.Errorf("%d log lines for 3 failures", n)
				}
			})
		})
	}
}

func TestMissingCertificateIsRenewed(t *testing.T) {
	called := false
	o := Options{Files: []string{filepath.Join(t.TempDir(), "none")}, Now: time.Now,
		Renew: func(context.Context) error { called = true; return nil }}
	if _, err := o.look(t.Context()); !called || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("called %v, %v", called, err)
	}
}

// TestNoHurryAtTheEndOfACA is about a leaf that no renewal makes last longer.
func TestNoHurryAtTheEndOfACA(t *testing.T) {
	f, err := pki.Ensure(filepath.Join(t.TempDir(), "tls"), pki.Options{Life: 2 * pki.CALife})
	if err != nil {
		t.Fatal(err)
	}
	late := func() time.Time { return time.Now().Add(pki.CALife - 30*24*time.Hour) }
	if replaced, err := pki.Renew(f.Dir, pki.Options{Now: late}); err != nil || len(replaced) != 0 {
		t.Errorf("renewed %v, %v", replaced, err)
	}
	o := Options{Files: []string{f.Admin.Cert}, Now: late, Renew: func(context.Context) error { return nil }}
	if wait, err := o.look(t.Context()); err != nil || wait < time.Minute {
		t.Errorf("looks again after %s, %v", wait, err)
	}
}

func TestForceKeepsKeys(t *testing.T) {
	opts := pki.Options{SANs: []string{"a", net.IPv4(192, 0, 2, 1).String()}}
	f, err := pki.Ensure(filepath.Join(t.TempDir(), "tls"), opts)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(f.Admin.Key)
	if err != nil {
		t.Fatal(err)
	}
	if replaced, err := pki.Renew(f.Dir, opts); err != nil || len(replaced) != 0 {
		t.Errorf("renewed %v, %v without need", replaced, err)
	}
	opts.Force = true
	replaced, err := pki.Renew(f.Dir, opts)
	leaves := 0
	for _, u := range f.Uses() {
		if !u.CA {
			leaves++
		}
	}
	if err != nil || len(replaced) != leaves {
		t.Errorf("renewed %v, %v; want all %d", replaced, err, leaves)
	}
	if after, err := os.ReadFile(f.Admin.Key); err != nil || string(after) != string(before) {
		t.Errorf("another key: %v", err)
	}
}
