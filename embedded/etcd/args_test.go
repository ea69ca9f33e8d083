package etcd

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestArgumentsSetEtcdsSettings(t *testing.T) {
	s, err := New(Options{Dir: "/d", Name: "n", CertFile: "/c", PeerCertFile: "/p", Args: []string{
		"quota-backend-bytes=1073741824", "--heartbeat-interval=150", "warning-unary-request-duration=1s",
		"max-concurrent-streams=7", "listen-metrics-urls=http://127.0.0.1:2381",
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.cfg
	if cfg.ClientTLSInfo.CertFile != "/c" || cfg.PeerTLSInfo.CertFile != "/p" || cfg.Dir != "/d" || cfg.Name != "n" ||
		cfg.InitialCluster != "n=https://127.0.0.1:2380" {
		t.Errorf("binding the flags took what a4s owns: %+v", cfg)
	}
	if cfg.MaxConcurrentStreams != 7 || len(cfg.ListenMetricsUrls) != 1 {
		t.Errorf("flags that hold their value are lost: %d, %v", cfg.MaxConcurrentStreams, cfg.ListenMetricsUrls)
	}
	if cfg.QuotaBackendBytes != 1<<30 || cfg.TickMs != 150 || cfg.WarningUnaryRequestDuration != time.Second {
		t.Errorf("settings = %d, %d, %s", cfg.QuotaBackendBytes, cfg.TickMs, cfg.WarningUnaryRequestDuration)
	}
}

// Every flag of etcd either reaches its configuration or is refused: one that
// is accepted and does nothing would be worse than an error.
func TestNoFlagIsAcceptedInVain(t *testing.T) {
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(fs)
	fs.VisitAll(func(f *flag.Flag) {
		// etcd's own value types are read from the flag set by its main.
		if !strings.Contains(fmt.Sprintf("%T", f.Value), "flags.") {
			return
		}
		switch f.Name {
		case "listen-metrics-urls", "cipher-suites", "max-concurrent-streams":
		default:
			if _, ok := owned()[f.Name]; !ok {
				t.Errorf("--%s (%T) is accepted and has no effect", f.Name, f.Value)
			}
		}
	})
}

func TestOurDefaultsHoldWithoutArguments(t *testing.T) {
	s, err := New(Options{Dir: "/d", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg := s.cfg; cfg.QuotaBackendBytes != 4<<30 || cfg.AutoCompactionRetention != "0" ||
		cfg.WarningUnaryRequestDuration != embed.DefaultWarningUnaryRequestDuration {
		t.Errorf("quota %d, compaction %q, slow request %s", cfg.QuotaBackendBytes, cfg.AutoCompactionRetention,
			cfg.WarningUnaryRequestDuration)
	} else if kept := cfg.SnapshotCount + cfg.SnapshotCatchUpEntries; kept > 3000 {
		t.Errorf("%d changes are kept in memory", kept)
	}
}

// A member without others does not wait for them at its start, and a user who
// names one time has etcd's own for the other.
func TestElectionOfAMemberWithoutOthers(t *testing.T) {
	for name, c := range map[string]struct {
		address        string
		args           []string
		tick, election uint
	}{
		"sole":        {"", nil, 50, 250},
		"with others": {"192.0.2.1", nil, 250, 2500},
		"as one says": {"", []string{"--heartbeat-interval=150"}, 150, 1000},
	} {
		s, err := New(Options{Dir: "/d", Name: "n", Address: c.address, Args: c.args})
		if err != nil {
			t.Fatal(err)
		}
		if s.cfg.TickMs != c.tick || s.cfg.ElectionMs != c.election {
			t.Errorf("%s: heartbeat %d, election %d, want %d, %d", name, s.cfg.TickMs,
				s.cfg.ElectionMs, c.tick, c.election)
		}
	}
}

func TestBadArgumentsAreInput(t *testing.T) {
	for arg, want := range map[string]string{
		"quota-backend-byte=1":        "want quota-backend-bytes",
		"quota-backend-bytes=many":    "type",
		"quota-backend-bytes":         "name=value",
		"data-dir=/tmp/x":             "--data-dir",
		"listen-client-urls=http://x": "loopback",
		"peer-cert-file=/x":           "certificate",
	} {
		_, err := New(Options{Dir: "/d", Name: "n", Args: []string{arg}})
		var in *problem.Input
		if !errors.As(err, &in) || in.Value != arg || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q) = %v, want a problem.Input that says %q", arg, err, want)
		}
	}
}
