//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	taskapi "github.com/containerd/containerd/api/runtime/task/v3"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task"
	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/shutdown"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"github.com/containerd/ttrpc"
)

// maxTerminals is how many pseudo-terminals a container has at most. The kernel has
// kernel.pty.max for all of the machine.
const maxTerminals = 512

// bounded is upstream's task service, with a limit of the terminals of each
// container, the one of the sandbox included: containerd's settings have no place
// for that which covers both.
type bounded struct{ taskapi.TTRPCTaskService }

// Create implements taskapi.TTRPCTaskService.
func (b bounded) Create(ctx context.Context, r *taskapi.CreateTaskRequest) (*taskapi.CreateTaskResponse, error) {
	if err := boundTerminals(filepath.Join(r.Bundle, "config.json")); err != nil {
		return nil, err
	}
	return b.TTRPCTaskService.Create(ctx, r)
}

// RegisterTTRPC puts the service into the shim's server.
func (b bounded) RegisterTTRPC(server *ttrpc.Server) error {
	taskapi.RegisterTTRPCTaskService(server, b)
	return nil
}

// registerTasks registers the task service, as upstream's package task/plugin does
// for the one without bounds.
func registerTasks() {
	registry.Register(&plugin.Registration{
		Type:     plugins.TTRPCPlugin,
		ID:       "task",
		Requires: []plugin.Type{plugins.EventPlugin, plugins.InternalPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			publisher, err := ic.GetByID(plugins.EventPlugin, "publisher")
			if err != nil {
				return nil, err
			}
			end, err := ic.GetByID(plugins.InternalPlugin, "shutdown")
			if err != nil {
				return nil, err
			}
			tasks, err := task.NewTaskService(ic.Context, publisher.(shim.Publisher), end.(shutdown.Service))
			if err != nil {
				return nil, err
			}
			return bounded{tasks}, nil
		},
	})
}

// boundTerminals gives each devpts of an OCI configuration a limit, unless it has
// one. What it does not know of the configuration stays as it is.
func boundTerminals(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the configuration of a container: %w", err)
	}
	var config map[string]json.RawMessage
	var mounts []map[string]json.RawMessage
	err = json.Unmarshal(text, &config)
	if err == nil && config["mounts"] != nil {
		err = json.Unmarshal(config["mounts"], &mounts)
	}
	changed := false
	for i := 0; err == nil && i < len(mounts); i++ {
		var did bool
		did, err = boundMount(mounts[i])
		changed = changed || did
	}
	if err == nil && changed {
		config["mounts"], err = json.Marshal(mounts)
	}
	if err == nil && changed {
		text, err = json.Marshal(config)
	}
	if err != nil {
		return fmt.Errorf("configuration %s of a container: %w", file, err)
	}
	if !changed {
		return nil
	}
	return os.WriteFile(file, text, 0) // it exists, with its mode
}

func boundMount(mount map[string]json.RawMessage) (changed bool, err error) {
	if !bytes.Equal(mount["type"], []byte(`"devpts"`)) {
		return false, nil
	}
	var options []string
	if mount["options"] != nil {
		if err := json.Unmarshal(mount["options"], &options); err != nil {
			return false, err
		}
	}
	if slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "max=") }) {
		return false, nil
	}
	mount["options"], err = json.Marshal(append(options, fmt.Sprintf("max=%d", maxTerminals)))
	return err == nil, err
}
