package containerd

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/runtime/registries"
	"github.com/a4s-io/a4s/internal/problem"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func sampleOptions() Options {
	return Options{
		DataDir:    "/var/lib/a4s",
		ShimPath:   "/var/lib/a4s/data/x/bin/containerd-shim-runc-v2",
		RuncPath:   "/var/lib/a4s/data/x/bin/runc",
		CNIBinDir:  "/var/lib/a4s/data/x/bin/cni",
		PauseImage: "docker.io/a4s/pause:1",
	}.withDefaults()
}

func TestConfigGolden(t *testing.T) {
	t.Setenv("CONTAINERD_LOG_LEVEL", "")
	systemd := sampleOptions()
	systemd.Host = host.Info{CgroupV2: true, Systemd: true, CanLowerOOMScore: true}
	systemd.Debug = true
	systemd.Registries = registries.Fixed(&registries.Config{Configs: map[string]registries.Host{
		"a.example:5000": {Auth: &registries.Auth{Username: "u", Password: `p"\w`}},
	}})
	native := sampleOptions()
	native.Snapshotter = "native"
	found := sampleOptions()
	found.DefaultRuntime = "crun"
	found.Runtimes = []Runtime{{Handler: "crun", Type: runcShim, Path: "/usr/bin/crun"},
		{Handler: "nvidia-cdi", Type: runcShim, Path: `/usr/bin/a "b"`},
		{Handler: "spin", Type: "io.containerd.spin.v2", Path: "/opt/kwasm/bin/containerd-shim-spin-v2", Shim: true}}
	for name, o := range map[string]Options{"systemd": systemd, "restricted": native, "found": found} {
		t.Run(name, func(t *testing.T) {
			got, err := o.config(nil, o.Registries.Config().Auths())
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".toml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestUserTemplate(t *testing.T) {
	o := sampleOptions()
	got, err := o.config([]byte("{{ template \"base\" . }}\n[plugins.'x']\n  y = {{ toml .Socket }}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(got), "# Generated") ||
		!strings.Contains(string(got), `y = "/run/a4s/containerd/containerd.sock"`) {
		t.Errorf("got:\n%s", got)
	}
	for name, text := range map[string]string{
		"unknown field": "{{ .Nothing }}",
		"no template":   "{{ if }}",
		"not TOML":      "= 1",
		"a table twice": "{{ template \"base\" . }}\n[debug]\n",
	} {
		_, err := o.config([]byte(text), nil)
		var input *problem.Input
		if !errors.As(err, &input) || input.Source != o.templateFile() {
			t.Errorf("%s: error = %v, want a problem.Input that names %s", name, err, o.templateFile())
		}
	}
}

func TestValidate(t *testing.T) {
	o := sampleOptions()
	if err := o.validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"relative path":  func(o *Options) { o.RuncPath = "runc" },
		"long state dir": func(o *Options) { o.StateDir = "/run/" + strings.Repeat("x", 40) },
	} {
		o := sampleOptions()
		change(&o)
		if o.validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWriteConfig(t *testing.T) {
	o := sampleOptions()
	o.DataDir, o.StateDir = t.TempDir(), t.TempDir()
	o.CNIConfDir = CNIConfDir(o.DataDir)
	o.Log = logrus.WithField("component", "test")
	if err := o.writeConfig(); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(o.configFile())
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600: the file may hold credentials", st.Mode().Perm())
	}
	if err := os.WriteFile(o.templateFile(), []byte("version = 4\nroot = {{ toml .Root }}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.Validate(); err != nil {
		t.Errorf("a good template: %v", err)
	}
	if err := o.writeConfig(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(o.configFile()); err != nil || !strings.HasPrefix(string(got), "version = 4\nroot") {
		t.Errorf("with a user's template: %q, %v", got, err)
	}
	if err := os.WriteFile(o.templateFile(), []byte("{{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var input *problem.Input
	if err := o.Validate(); !errors.As(err, &input) {
		t.Errorf("a bad template: error = %v, want a problem.Input", err)
	}
}

func TestChildEnv(t *testing.T) {
	got := childEnv([]string{
		"PATH=/opt/x:/usr/bin", "HOME=/root", "A4S_TOKEN=secret", "NOTIFY_SOCKET=/run/x", "WATCHDOG_USEC=1",
		"CONTAINERD_HTTP_PROXY=http://p", "CONTAINERD_LOG_LEVEL=debug",
	}, "/bin-dir", "/bin-dir")
	want := []string{"HOME=/root", "PATH=/bin-dir:/opt/x:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin",
		"HTTP_PROXY=http://p"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
