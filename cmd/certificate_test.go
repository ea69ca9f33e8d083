package cmd

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// pkiOf makes the PKI of a server as it was made some time ago.
func pkiOf(t *testing.T, age time.Duration) string {
	t.Helper()
	noConfig(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "server"), 0o700); err != nil {
		t.Fatal(err)
	}
	then := func() time.Time { return time.Now().Add(-age) }
	f, err := pki.Ensure(filepath.Join(dir, "server", "tls"), pki.Options{SANs: []string{"a"}, Now: then})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "admin.yaml")
	t.Setenv("A4S_KUBECONFIG_OUTPUT", path)
	if err := kubeconfig.Write(kubeconfig.Options{Path: path, Server: "https://127.0.0.1:1", CAFile: f.ServerCA.Cert, CertFile: f.Admin.Cert, KeyFile: f.Admin.Key, Embed: true}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCertificateCheck(t *testing.T) {
	day := 24 * time.Hour
	for _, tc := range []struct {
		name   string
		age    time.Duration
		damage string
		bad    map[string]int // rows by state
	}{
		{"new", 0, "", map[string]int{certOK: 16}},
		{"due, which a start or the running a4s sees to", 250 * day, "", map[string]int{certOK: 16}},
		{"not renewed for long", 310 * day, "", map[string]int{certOK: 5, certExpiring: 11}},
		{"expired", 366 * day, "", map[string]int{certOK: 5, certExpired: 11}},
		{"CAs in their last year", pki.CALife - 300*day, "", map[string]int{certExpiring: 5, certExpired: 11}},
		{"damaged", 0, "client-admin.crt", map[string]int{certOK: 15, certBad: 1}},
		{"missing", 0, "etcd/client.crt", map[string]int{certOK: 15, certBad: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := pkiOf(t, tc.age)
			if tc.damage == "etcd/client.crt" {
				if err := os.Remove(filepath.Join(dir, "server", "tls", tc.damage)); err != nil {
					t.Fatal(err)
				}
			} else if tc.damage != "" {
				if err := os.WriteFile(filepath.Join(dir, "server", "tls", tc.damage), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, out, _, err := run(t, "certificate", "check", "-d", dir, "-o", "json")
			var rows []certificate
			if err := json.Unmarshal([]byte(out), &rows); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := map[string]int{}
			for _, r := range rows {
				got[r.State]++
				if r.User == "" || r.File == "" || (r.State == certBad) != (r.Error != "") {
					t.Errorf("row %+v", r)
				}
			}
			for state, n := range tc.bad {
				if got[state] != n {
					t.Errorf("states %v, want %v", got, tc.bad)
				}
			}
			if want := 1 - min(1, len(rows)-got[certOK]); (problem.ExitCode(err) == 0) != (want == 1) || problem.ExitCode(err) > 1 {
				t.Errorf("exit code %d for %v", problem.ExitCode(err), got)
			}
			_, table, _, _ := run(t, "certificate", "check", "-d", dir)
			if lines := strings.Count(table, "\n"); lines != len(rows)+1 || !strings.Contains(table, "serving-kube-apiserver.crt") {
				t.Errorf("table of %d lines:\n%s", lines, table)
			}
		})
	}
}

func TestCertificateRefusals(t *testing.T) {
	dir := pkiOf(t, 0)
	for args, want := range map[string]string{
		"certificate check -o yaml":              "table or json",
		"certificate rotate -d " + dir:           "not running",
		"certificate rotate -d " + t.TempDir():   "has no certificates",
		"certificate check -d " + t.TempDir():    "has no certificates",
		"certificate check now":                  `"now"`,
		"server --certificate-lifetime 10s":      "--certificate-lifetime",
		"server --certificate-lifetime forever":  "--certificate-lifetime",
		"server --certificate-lifetime 1000000h": "--certificate-lifetime",
	} {
		_, _, _, err := run(t, strings.Fields(args)...)
		var in *problem.Input
		var pre *problem.Precondition
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &in) && !errors.As(err, &pre) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if life := (&config.Server{CertificateLifetime: "36h"}).CertificateLife(); life != 36*time.Hour {
		t.Errorf("life %s", life)
	}
}
