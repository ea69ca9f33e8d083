package etcd

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func goexit() { runtime.Goexit() }

const (
	whyLoopback = "the datastore listens on loopback, for holders of a certificate of its own CA"
	whySingle   = "a4s decides the members of the datastore"
)

// owned are flags of etcd that a4s decides and why.
func owned() map[string]string {
	m := map[string]string{
		"data-dir":    "the data directory follows --data-dir",
		"name":        whySingle,
		"log-outputs": "the log of etcd goes into that of a4s",
		"log-level":   "the log of etcd goes into that of a4s; use --debug or -v",
	}
	for _, name := range []string{
		"listen-client-urls", "listen-peer-urls", "listen-client-http-urls", "advertise-client-urls",
		"initial-advertise-peer-urls",
		"cors", "host-whitelist", "client-cert-allowed-hostname", "peer-cert-allowed-cn", "peer-cert-allowed-hostname",
		"cert-file", "key-file", "client-cert-file", "client-key-file", "trusted-ca-file", "client-cert-auth",
		"client-crl-file", "auto-tls",
		"peer-cert-file", "peer-key-file", "peer-client-cert-file", "peer-client-key-file", "peer-trusted-ca-file",
		"peer-client-cert-auth",
		"peer-crl-file", "peer-auto-tls", "self-signed-cert-validity",
	} {
		m[name] = whyLoopback
	}
	for _, name := range []string{
		"initial-cluster", "initial-cluster-state", "initial-cluster-token", "force-new-cluster",
		"discovery", "discovery-srv", "discovery-srv-name", "discovery-endpoints", "discovery-token",
	} {
		m[name] = whySingle
	}
	return m
}

// clusterDefaults are what differs for a member that has others.
func clusterDefaults() map[string]string {
	return map[string]string{
		// A small machine that is busy is no dead one; and still another leader
		// is found within a few seconds.
		"heartbeat-interval": "250",
		"election-timeout":   "2500",
		// A member that was away for a while catches up without a copy of all.
		"snapshot-count":           "10000",
		"snapshot-catchup-entries": "5000",
		// They do not vote: one that never came up must not keep others out.
		"max-learners": "5",
	}
}

// soleDefaults are what differs for a member without others, unless the user
// has times of their own. It elects itself after up to an election timeout, which
// is most of its start, and has nobody to be patient with.
func soleDefaults(args []string) map[string]string {
	if slices.ContainsFunc(args, isTiming) {
		return nil
	}
	return map[string]string{"heartbeat-interval": "50", "election-timeout": "250"}
}

// newConfig returns etcd's defaults, changed by ours and then by the user's
// arguments, both by the names of etcd's flags. What a4s owns is not in it yet:
// binding the flags sets every field that one of them stands for.
func newConfig(args []string, clustered bool) (*embed.Config, error) {
	cfg := embed.NewConfig()
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	cfg.AddFlags(fs)
	defaults := map[string]string{
		"quota-backend-bytes": strconv.Itoa(4 << 30),
		// The API server compacts; what etcd would compact by itself could be
		// history that a watch still needs.
		"auto-compaction-retention": "0",
		// etcd keeps the latest changes in memory for members that lag behind,
		// at its defaults up to 15,000. There are no other members.
		"snapshot-count":           "2000",
		"snapshot-catchup-entries": "100",
		// Without it every request counts as slow.
		"warning-unary-request-duration": embed.DefaultWarningUnaryRequestDuration.String(),
	}
	if clustered {
		maps.Copy(defaults, clusterDefaults())
	} else {
		maps.Copy(defaults, soleDefaults(args))
	}
	for name, value := range defaults {
		if err := fs.Set(name, value); err != nil {
			return nil, fmt.Errorf("etcd's --%s: %w", name, err)
		}
	}
	return cfg, applyArgs(cfg, fs, args)
}

// applyArgs sets the user's arguments on cfg, to which fs is bound.
func applyArgs(cfg *embed.Config, fs *flag.FlagSet, args []string) error {
	var known []string
	fs.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
	owned := owned()
	for _, arg := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		bad := func(err error, want string) error {
			return &problem.Input{Source: "--etcd-arg", Value: arg, Err: err, Want: want}
		}
		if !ok || name == "" {
			return bad(nil, "name=value")
		}
		if why, ok := owned[name]; ok {
			return bad(errors.New(why), "another flag")
		}
		if fs.Lookup(name) == nil {
			want := "a flag of etcd"
			if near := config.Nearest(name, known); near != "" {
				want = near + ", or another flag of etcd"
			}
			return bad(errors.New("unknown flag"), want)
		}
		if err := fs.Set(name, value); err != nil {
			return bad(err, "a value of the flag's type")
		}
		// These flags hold their values themselves.
		switch name {
		case "listen-metrics-urls":
			cfg.ListenMetricsUrls = flags.UniqueURLsFromFlag(fs, name)
		case "cipher-suites":
			cfg.CipherSuites = flags.StringsFromFlag(fs, name)
		case "max-concurrent-streams":
			cfg.MaxConcurrentStreams = flags.Uint32FromFlag(fs, name)
		}
	}
	return nil
}
