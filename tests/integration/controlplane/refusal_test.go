package controlplane_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// tryStart starts a control plane that must be refused before any component
// runs.
func tryStart(t *testing.T, cfg *config.Server) error {
	t.Helper()
	group := planes.NewGroup()
	_, err := planes.Run(t.Context(), group, cfg)
	if err == nil {
		_ = group.Stop()
		t.Fatal("the server started")
	}
	if n := len(group.States()); n != 0 {
		t.Errorf("%d components were started before the refusal", n)
	}
	return err
}

func TestBadUpstreamArgumentsAreRefused(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	for flag, set := range map[string]func(*config.Server, []string){
		"--kube-apiserver-arg":          func(c *config.Server, a []string) { c.KubeAPIServerArgs = a },
		"--kube-controller-manager-arg": func(c *config.Server, a []string) { c.KubeControllerManagerArgs = a },
		"--kube-scheduler-arg":          func(c *config.Server, a []string) { c.KubeSchedulerArgs = a },
		"--etcd-arg":                    func(c *config.Server, a []string) { c.EtcdArgs = a },
	} {
		for _, arg := range []string{"no-such-setting=1", "nonsense"} {
			cfg := settings(t.TempDir())
			set(cfg, []string{arg})
			err := tryStart(t, cfg)
			var in *problem.Input
			if !errors.As(err, &in) || in.Source != flag || !strings.Contains(err.Error(), arg) {
				t.Errorf("%s %s: %v, want a problem.Input with flag and value", flag, arg, err)
			}
			if left, err := os.ReadDir(cfg.Agent.DataDir); err != nil || len(left) > 0 {
				t.Errorf("%s %s: the refusal left %v in the data directory, %v", flag, arg, left, err)
			}
		}
	}
}

// TestBrokenFilesOfArgumentsAreRefused: a file that the API server would not start with ends
// the start with its reason, before a port is opened and anything is written.
func TestBrokenFilesOfArgumentsAreRefused(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	file := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(file, []byte("kind: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"authentication-config", "authorization-config", "audit-policy-file",
		"egress-selector-config-file", "tracing-config-file", "admission-control-config-file",
		"encryption-provider-config", "token-auth-file", "authorization-webhook-config-file"} {
		cfg := settings(t.TempDir())
		cfg.KubeAPIServerArgs = []string{name + "=" + file}
		err := tryStart(t, cfg)
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != "--kube-apiserver-arg" || !strings.Contains(in.Value, name+"="+file) {
			t.Errorf("%s: %v, want a problem.Input with flag and file", name, err)
		}
		if left, err := os.ReadDir(cfg.Agent.DataDir); err != nil || len(left) > 0 {
			t.Errorf("%s: the refusal left %v in the data directory, %v", name, left, err)
		}
	}
}

func TestDamagedDatastoreIsRefused(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	p := start(t, settings(dir))
	if err := p.group.Stop(); err != nil {
		t.Fatal(err)
	}
	backend := filepath.Join(dir, "server", "db", "etcd", "member", "snap", "db")
	good, err := os.ReadFile(backend)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{
		"overwritten": append(make([]byte, 64<<10), good[64<<10:]...),
		"cut short":   good[:8<<12],
		"empty":       {},
		"text":        []byte("this is not a database\n"),
		"bad page": func() []byte {
			b := append([]byte(nil), good...)
			for i := 8 << 12; i < len(b) && i < 64<<12; i++ {
				b[i] ^= 0xa5
			}
			return b
		}(),
	}
	for name, data := range damage {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(backend, data, 0o600); err != nil {
				t.Fatal(err)
			}
			err := tryStart(t, settings(dir))
			var pre *problem.Precondition
			if !errors.As(err, &pre) || !strings.Contains(err.Error(), filepath.Join(dir, "server", "db", "etcd")) {
				t.Errorf("Start = %v, want a precondition that names the directory", err)
			}
			if after, err := os.ReadFile(backend); err != nil || len(after) != len(data) {
				t.Errorf("the damaged file was changed: %d bytes, %v, want %d", len(after), err, len(data))
			}
		})
	}
	if err := os.WriteFile(backend, good, 0o600); err != nil {
		t.Fatal(err)
	}
	p = start(t, settings(dir))
	if err := p.group.Stop(); err != nil {
		t.Error(err)
	}
}
