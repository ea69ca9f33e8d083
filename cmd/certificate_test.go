package cmd

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
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
	if err := kubeconfig.Write(kubeconfig.Options{Path: path, Server: "https://127.0.0.1:1", CAFile: f.ServerCA.Cert,
		CertFile: f.Admin.Cert, KeyFile: f.Admin.Key, Embed: true}); err != nil {
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
		{"new", 0, "", map[string]int{certOK: 17}},
		{"due, which a start or the running a4s sees to", 250 * day, "", map[string]int{certOK: 17}},
		{"not renewed for long", 310 * day, "", map[string]int{certOK: 5, certExpiring: 12}},
		{"expired", 366 * day, "", map[string]int{certOK: 5, certExpired: 12}},
		{"CAs in their last year", pki.CALife - 300*day, "", map[string]int{certExpiring: 5, certExpired: 12}},
		{"damaged", 0, "client-admin.crt", map[string]int{certOK: 16, certBad: 1}},
		{"missing", 0, "etcd/client.crt", map[string]int{certOK: 16, certBad: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := pkiOf(t, tc.age)
			if tc.damage == "etcd/client.crt" {
				if err := os.Remove(filepath.Join(dir, "server", "tls", tc.damage)); err != nil {
					t.Fatal(err)
				}
			} else if tc.damage != "" {
				if err := os.WriteFile(filepath.Join(dir, "server", "tls", tc.damage), []byte("x"),
					0o600); err != nil {
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
			if want := 1 - min(1, len(rows)-got[certOK]); (problem.ExitCode(err) == 0) != (want == 1) ||
				problem.ExitCode(err) > 1 {
				t.Errorf("exit code %d for %v", problem.ExitCode(err), got)
			}
			_, table, _, _ := run(t, "certificate", "check", "-d", dir)
			if lines := strings.Count(table, "\n"); lines != len(rows)+1 ||
				!strings.Contains(table, "serving-kube-apiserver.crt") {
				t.Errorf("table of %d lines:\n%s", lines, table)
			}
		})
	}
}

func TestCertificateRefusals(t *testing.T) {
	dir := pkiOf(t, 0)
	for args, want := range map[string]string{
		"certificate check -o yaml":               "table or json",
		"certificate rotate -d " + dir:            "not running",
		"certificate rotate -d " + t.TempDir():    "has no certificates",
		"certificate check -d " + t.TempDir():     "has no certificates",
		"certificate check now":                   `"now"`,
		"certificate rotate-ca --finish --force":  "neither --path nor --force",
		"certificate rotate-ca --finish --path x": "neither --path nor --force",
		"certificate rotate-ca now":               `"now"`,
		"server --certificate-lifetime 10s":       "--certificate-lifetime",
		"server --certificate-lifetime forever":   "--certificate-lifetime",
		"server --certificate-lifetime 1000000h":  "--certificate-lifetime",
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

func TestRotateCA(t *testing.T) {
	noConfig(t)
	for _, tc := range []struct {
		args string
		want CARotation
		say  string
	}{
		{"-d /x", CARotation{DataDir: "/x"}, "--finish"},
		{"-d /x --path /new", CARotation{DataDir: "/x", Path: "/new"}, "restart it on all agents"},
		{"-d /x --force", CARotation{DataDir: "/x", Force: true}, "does not come back"},
		{"-d /x --finish", CARotation{DataDir: "/x", Finish: true}, "only the new CAs"},
	} {
		var got CARotation
		var out bytes.Buffer
		app := NewApp(Modes{RotateCA: func(r *CARotation) (*CARotated, error) {
			got = *r
			return &CARotated{Replaced: []string{"server-ca", "client-ca"}, Backup: "/backup", Token: "K10token"}, nil
		}})
		app.Stdout = &out
		if err := app.RunContext(t.Context(),
			append([]string{"a4s", "certificate", "rotate-ca"}, strings.Fields(tc.args)...)); err != nil {
			t.Fatal(err)
		}
		if got != tc.want {
			t.Errorf("%s: asked for %+v", tc.args, got)
		}
		for _, text := range []string{"replaced server-ca, client-ca\n", "/backup", tc.say, "\nK10token\n"} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", tc.args, text, out.String())
			}
		}
	}
}

// Beside a server that runs, that one is asked.
func TestRotateCAOfRunningServers(t *testing.T) {
	var asked joinapi.CAsRequest
	var missing []string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != joinapi.PathCAs {
			t.Errorf("unexpected %s %s", r.Method, r.URL.Path)
		}
		asked = joinapi.CAsRequest{}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(joinapi.CAsResponse{Replaced: []string{"server-ca", "client-ca"},
			Servers: []string{"one", "two"}, Missing: missing, Token: "K10token"})
	}))
	t.Cleanup(srv.Close)
	admin := filepath.Join(t.TempDir(), "admin.yaml")
	writeKubeconfig(t, admin, srv.URL,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	if err := os.WriteFile(noConfig(t), []byte("write-kubeconfig: "+admin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args    string
		missing []string
		want    joinapi.CAsRequest
		say     string
	}{
		{"", nil, joinapi.CAsRequest{}, "rotate-ca --finish"},
		{"--path new", nil, joinapi.CAsRequest{Path: filepath.Join(here, "new")},
			"restart a4s on each server"},
		{"--force", nil, joinapi.CAsRequest{Force: true}, "restart all servers at once"},
		{"--finish", nil, joinapi.CAsRequest{Finish: true}, "only the new CAs"},
		{"", []string{"two"}, joinapi.CAsRequest{}, "not yet fetched by two:"},
	} {
		missing = tc.missing
		var out bytes.Buffer
		app := NewApp(Modes{RotateCA: func(*CARotation) (*CARotated, error) { return nil, ErrServerRuns }})
		app.Stdout = &out
		if err := app.RunContext(t.Context(),
			append([]string{"a4s", "certificate", "rotate-ca"}, strings.Fields(tc.args)...)); err != nil {
			t.Fatal(err)
		}
		if asked != tc.want {
			t.Errorf("%q: asked for %+v", tc.args, asked)
		}
		for _, text := range []string{"replaced server-ca, client-ca, for the next start of each server (one, two)\n",
			tc.say, "\nK10token\n"} {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%q: no %q in\n%s", tc.args, text, out.String())
			}
		}
	}
}
