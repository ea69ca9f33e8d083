package cmd

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/problem"
)

func newDoctor(t *testing.T) doctor {
	t.Helper()
	dir, err := os.MkdirTemp("", "doctor") // short: the name of a socket is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck
	host := checkconfig.ThisHost(dir)
	host.PortFree = func(int) bool { return false }
	return doctor{
		socket: filepath.Join(dir, "s"), proc: filepath.Join(dir, "proc"), host: host, now: time.Now(),
		local: &config.Local{DataDir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig")},
	}
}

func (d doctor) find(t *testing.T) (*diagnosis, map[health.Code]health.Problem) {
	t.Helper()
	found, err := d.examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[health.Code]health.Problem{}
	for _, p := range found.Problems {
		out[p.Code+health.Code(strings.TrimPrefix(":"+filepath.Base(p.Subject), ":."))] = p
	}
	return found, out
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestDoctorOfAStoppedMachine(t *testing.T) {
	d := newDoctor(t)
	dir := d.local.DataDir
	write(t, filepath.Join(dir, "server/tls/server-ca.crt"), "no certificate", 0o644)
	write(t, filepath.Join(dir, "server/tls/server-ca.key"), "", 0o640)
	write(t, filepath.Join(dir, "server/token"), "", 0o600)
	write(t, d.local.Kubeconfig, "", 0o644)
	write(t, filepath.Join(d.proc, "77/cmdline"),
		"/x/containerd-shim-runc-v2\x00-address\x00/run/a4s/containerd/containerd.sock\x00", 0o600)
	found, problems := d.find(t)
	for _, want := range []health.Code{"secret-readable:server-ca.key", "kubeconfig-readable:kubeconfig",
		"pods-without-a4s", "check-config:tcp", "certificate-unreadable:server-ca.crt"} {
		if p, ok := problems[want]; !ok || p.Cause == "" || p.Fix == "" {
			t.Errorf("%s is %+v", want, p)
		}
	}
	if _, ok := problems["secret-readable:token"]; ok {
		t.Error("the token has the right mode")
	}
	var out strings.Builder
	err := found.report(&out, "table")
	if err == nil || !strings.Contains(out.String(), "No a4s runs") || !strings.Contains(out.String(), "chmod go= ") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestDoctorAsksTheRunningProcess(t *testing.T) {
	d := newDoctor(t)
	write(t, filepath.Join(d.proc, "77/cmdline"),
		"/x/containerd-shim-runc-v2\x00-address\x00/run/a4s/containerd/containerd.sock\x00", 0o600)
	report := health.Report{Mode: "agent", Node: "n7", Problems: []health.Problem{{Code: health.DNSNotServing,
		Severity: health.Warning, Title: "T", Cause: "C", Fix: "F"}}}
	l, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(report) //nolint:errcheck
		}),
	}
	go server.Serve(l)                   //nolint:errcheck
	t.Cleanup(func() { server.Close() }) //nolint:errcheck

	found, problems := d.find(t)
	if _, ok := problems[health.DNSNotServing]; !ok {
		t.Errorf("its problem is missing: %+v", found.Problems)
	}
	for _, p := range found.Problems {
		if p.Code == "pods-without-a4s" || strings.HasPrefix(p.Subject, "port ") {
			t.Errorf("a running a4s has %+v", p)
		}
	}

	only := &diagnosis{Running: &report, Problems: report.Problems}
	var out strings.Builder
	if err := only.report(&out, "json"); err != nil || !strings.Contains(out.String(), `"code": "dns-not-serving"`) {
		t.Errorf("warnings only: %v\n%s", err, out.String())
	}
	only.Problems[0].Severity = health.Error
	if err := only.report(&out, "table"); err == nil {
		t.Error("an error leads to no error")
	}
}

// What a program has taken of the kernel's limits is a finding, with what raises them.
func TestDoctorShowsLimitsOfTheKernel(t *testing.T) {
	d := newDoctor(t)
	write(t, filepath.Join(d.proc, "sys/fs/aio-nr"), "65000\n", 0o644)
	write(t, filepath.Join(d.proc, "sys/fs/aio-max-nr"), "65536\n", 0o644)
	_, problems := d.find(t)
	p, ok := problems["kernel-limit-almost-reached:fs.aio-max-nr"]
	if !ok || !strings.Contains(p.Detail, "sysctl -w fs.aio-max-nr=131072") {
		t.Errorf("the finding is %+v of %v", p, problems)
	}
}

// TestArgumentsAreChecked: what a server would refuse of its arguments is an error of
// check-config, and of a4s doctor while none runs.
func TestArgumentsAreChecked(t *testing.T) {
	d := newDoctor(t)
	file := filepath.Join(d.local.DataDir, "broken.yaml")
	refused := &problem.Input{Source: "--kube-apiserver-arg", Value: "authentication-config=" + file,
		Err: errors.New("no kind"), Want: "an AuthenticationConfiguration"}
	d.modes = Modes{CheckArguments: func(l *config.Local) error {
		if len(l.KubeAPIServerArgs) == 1 && strings.HasSuffix(l.KubeAPIServerArgs[0], file) {
			return refused
		}
		return nil
	}}
	if got := arguments(d.modes, d.local); got != nil {
		t.Errorf("without arguments: %+v", got)
	}
	d.local.KubeAPIServerArgs = []string{"profiling=false"}
	if got := arguments(d.modes, d.local); len(got) != 1 || got[0].Level != checkconfig.Pass {
		t.Errorf("of what is right: %+v", got)
	}
	d.local.KubeAPIServerArgs = []string{"authentication-config=" + file}
	got := arguments(d.modes, d.local)
	if len(got) != 1 || got[0].Level != checkconfig.Fail || got[0].Found != refused.Error() || got[0].Fix == "" {
		t.Errorf("of a broken file: %+v", got)
	}
	_, problems := d.find(t)
	if p := problems["arguments-refused:kube-apiserver arguments"]; p.Severity != health.Error ||
		!strings.Contains(p.Detail, file) {
		t.Errorf("a4s doctor found %+v", problems)
	}
	if p := d.arguments(true); len(p) != 1 || p[0].Severity != health.Warning {
		t.Errorf("of a server that runs: %+v", p)
	}
}
