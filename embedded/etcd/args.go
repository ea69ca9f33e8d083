package etcd

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/problem"
)

func goexit() { runtime.Goexit() }

// owned are settings that a4s decides and that would break the member when
// changed from outside.
var owned = map[string]string{
	"data-dir":           "the data directory follows --data-dir",
	"listen-client-urls": "the datastore listens on loopback only",
	"listen-peer-urls":   "the datastore listens on loopback only",
}

// applyArgs sets user overrides on cfg by the names of etcd's configuration
// file, which are the names of its flags.
func applyArgs(cfg *embed.Config, args []string) error {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		name = strings.TrimLeft(name, "-")
		if !ok || name == "" {
			return &problem.Input{Source: "--etcd-arg", Value: arg, Want: "name=value"}
		}
		if why, ok := owned[name]; ok {
			return &problem.Input{Source: "--etcd-arg", Value: arg, Err: errors.New(why), Want: "another setting"}
		}
		// YAML decides the type, as it does in etcd's own file.
		if err := yaml.UnmarshalStrict(fmt.Appendf(nil, "%s: %s\n", name, value), cfg); err != nil {
			return &problem.Input{Source: "--etcd-arg", Value: arg, Err: err, Want: "a setting of etcd's configuration file"}
		}
	}
	return nil
}
