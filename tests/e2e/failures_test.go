package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

func TestOccupiedPortIsNamed(t *testing.T) {
	t.Parallel()
	h := newHost(t, "occupied")
	holder, err := h.Start(env.testbox, "serve", ":6443")
	if err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the port is occupied", func(ctx context.Context) error {
		_, err := fetch(ctx, "http://"+h.IP.String()+":6443/healthz")
		return err
	})
	wantProblem(t, command(t, h, "server"), 2, "6443", "--https-listen-port")
	if !holder.Running() {
		t.Error("the process that held the port was ended")
	}
}

func TestFullDiskIsReported(t *testing.T) {
	t.Parallel()
	h := newHost(t, "full")
	run(t, h, "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", dataDir)
	r := command(t, h, "server")
	wantProblem(t, r, 2, dataDir)
	if text := strings.ToLower(r.Stderr); !strings.Contains(text, "space") && !strings.Contains(text, "room") {
		t.Errorf("the message does not tell that space is missing: %s", r.Stderr)
	}
}

func TestDiskThatFillsUpIsReported(t *testing.T) {
	t.Parallel()
	h := newHost(t, "filling")
	run(t, h, "mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", dataDir)
	c := &cluster{node: node{host: h, args: []string{"server", "--disable-agent"}}}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.waitReady(t)
	ns := c.namespace(t)
	if r, err := h.Run(t.Context(), "dd", "if=/dev/zero", "of="+dataDir+"/ballast", "bs=64k"); err != nil ||
		r.ExitCode == 0 {
		t.Fatalf("the disk does not fill up: %v %s", err, r.Stderr)
	}
	// Objects are written until one cannot be.
	acknowledged := 0
	hosts.Until(t, soon, "the server has ended", func(ctx context.Context) error {
		for c.proc.Running() {
			name := fmt.Sprintf("big-%d", acknowledged)
			if _, err := c.client.CoreV1().ConfigMaps(ns).Create(ctx, configMap(name, strings.Repeat("0", 512<<10)),
				metav1.CreateOptions{}); err != nil {
				return err
			}
			acknowledged++
		}
		return nil
	})
	text := c.proc.Output()
	noTrace(t, text)
	code, err := c.proc.ExitCode(stopTimeout)
	if err != nil || code != 2 {
		t.Errorf("exit code %d (%v), want 2", code, err)
	}
	// The API server's client of etcd, whose log is its own, may have the last
	// word.
	last := ""
	for line := range strings.Lines(hosts.LastLines(c.proc.Log, 5)) {
		if !strings.Contains(line, `"logger":"etcd-client"`) {
			last = line
		}
	}
	if !strings.Contains(last, dataDir) || !strings.Contains(last, "space") {
		t.Errorf("the last line does not tell that space is missing in %s: %s", dataDir, last)
	}
	run(t, h, "rm", dataDir+"/ballast")
	c.restart(t)
	list, err := c.client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) < acknowledged {
		t.Errorf("%d objects are there, but %d were acknowledged", len(list.Items), acknowledged)
	}
	t.Logf("%d objects were acknowledged before the disk was full", acknowledged)
}

func TestDamagedDataDirectoryIsReported(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "damaged", "--disable-agent")
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	var db, wal string
	err := filepath.WalkDir(c.host.Path(dataDir+"/server/db"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() == "db" {
			db = path
		}
		if err == nil && strings.HasSuffix(d.Name(), ".wal") {
			wal = path
		}
		return err
	})
	if err != nil || db == "" || wal == "" {
		t.Fatalf("no etcd database and log below server/db (%v)", err)
	}
	// As the host sees it, without the /proc/PID/root in front.
	name := func(path string) string { return strings.TrimPrefix(path, c.host.Path("/")) }
	for _, tc := range []struct {
		name, path, want string
	}{
		{"etcd database", db, dataDir + "/server/db"},
		{"etcd log", wal, filepath.Base(wal) + " is damaged"},
		{"CA key", c.host.Path(dataDir + "/server/tls/server-ca.key"), "/server-ca"},
		{"client CA", c.host.Path(dataDir + "/server/tls/client-ca.crt"), "/client-ca"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			good, err := os.ReadFile(tc.path)
			if err != nil {
				t.Fatal(err)
			}
			bad := []byte(strings.Repeat("damaged ", len(good)/8+1))[:len(good)]
			if err := os.WriteFile(tc.path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			wantProblem(t, c.a4s(t, c.args...), 2, tc.want)
			if now, err := os.ReadFile(tc.path); err != nil || string(now) != string(bad) {
				t.Errorf("%s was changed; an operator may want to look at it (%v)", name(tc.path), err)
			}
			if err := os.WriteFile(tc.path, good, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	c.restart(t)
	c.namespace(t)
}

func TestBadConfigurationIsReported(t *testing.T) {
	t.Parallel()
	h := newHost(t, "config")
	const file = "/etc/a4s/config.yaml"
	for _, tc := range []struct {
		name, content string
		args          []string
		want          []string
	}{
		{"malformed file", "token: [", nil, []string{file}},
		{"file is a list", "- token\n", nil, []string{file}},
		{"unknown key", "https-listen-prot: 7443\n", nil, []string{file, "https-listen-prot", "https-listen-port"}},
		{"bad value in a file", "cluster-cidr: nowhere\n", nil, []string{file, "cluster-cidr", "nowhere"}},
		{"missing file", "", []string{"--config", "/etc/a4s/absent.yaml"}, []string{"/etc/a4s/absent.yaml"}},
		{"unreadable file", "", []string{"--config", "/etc"}, []string{"/etc"}},
		{"unknown flag", "", []string{"--https-listen-prot", "7443"},
			[]string{"--https-listen-prot", "--https-listen-port"}},
		{"bad value of a flag", "", []string{"--node-ip", "nowhere"}, []string{"--node-ip", "nowhere"}},
		{"bad port", "", []string{"--https-listen-port", "70000"}, []string{"--https-listen-port", "70000"}},
		{"bad kubelet argument", "", []string{"--kubelet-arg", "no-such-setting=1"}, []string{"no-such-setting"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := h.WriteFile(file, tc.content); err != nil {
				t.Fatal(err)
			}
			wantProblem(t, command(t, h, append([]string{"server"}, tc.args...)...), 1, tc.want...)
		})
	}
	if _, err := os.Stat(h.Path(dataDir + "/server")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bad input has left state in the data directory (%v)", err)
	}
	if err := h.WriteFile(file, ""); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, command(t, h, "sever"), 1, "sever", "server")
	wantProblem(t, command(t, h, "server", "--kube-apiserver-arg", "no-such-setting=1"), 1,
		"--kube-apiserver-arg", "no-such-setting")
}
