package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/network"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/internal/version"
)

// RuntimeName is what the runtime calls itself in the CRI.
const RuntimeName = "a4s-vm"

// askTimeout is how long containerd may take to say that it is there.
const askTimeout = 5 * time.Second

// condition answers what the runtime is, and whether it can run machines.
type condition struct {
	machines *machines
	images   runtimeapi.ImageServiceClient
	network  *network.Manager
}

// missing says why no virtual machine can be started at the moment.
func (s *machines) missing() error {
	if err := settings.Preflight(s.settings); err != nil {
		return err
	}
	return s.choiceErr
}

// accelerator finds out how machines run here.
func accelerator(ctx context.Context, s settings.Service) (qemu.Choice, error) {
	if err := settings.Preflight(s); err != nil {
		return qemu.Choice{}, err
	}
	return qemu.Choose(ctx, s.Accelerator, qemu.Probe{
		Binary: s.QEMU, Kernel: s.Kernel, Initrd: s.Initrd, Cmdline: guest.CommandLine, Port: protocol.PortName,
		Cache: filepath.Join(s.Root, "accelerator.json"),
	})
}

// Version implements the CRI.
func (s *condition) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: RuntimeName, RuntimeVersion: version.Version, RuntimeApiVersion: "v1",
	}, nil
}

// Status implements the CRI.
func (s *condition) Status(ctx context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	answer := &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			conditionOf(runtimeapi.RuntimeReady, "CannotRunMachines", s.ready(ctx)),
			conditionOf(runtimeapi.NetworkReady, "NetworkPluginNotReady", s.network.Status(ctx)),
		}},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}
	for _, name := range handlers() {
		answer.RuntimeHandlers = append(answer.RuntimeHandlers, &runtimeapi.RuntimeHandler{
			Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true},
		})
	}
	if of := s.machines.settings; r.GetVerbose() {
		data, err := json.Marshal(map[string]any{
			"accelerator": s.machines.choice, "kernel": of.Kernel, "initrd": of.Initrd,
			"root": of.Root, "state": of.State,
		})
		if err != nil {
			return nil, fmt.Errorf("printing the configuration: %w", err)
		}
		answer.Info = map[string]string{"config": string(data)}
	}
	return answer, nil
}

func conditionOf(kind, reason string, err error) *runtimeapi.RuntimeCondition {
	c := &runtimeapi.RuntimeCondition{Type: kind, Status: err == nil}
	if err != nil {
		c.Reason, c.Message = reason, err.Error()
	}
	return c
}

// ready says why no pod can be started at the moment.
func (s *condition) ready(ctx context.Context) error {
	if err := s.machines.missing(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := s.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}); err != nil {
		return fmt.Errorf("containerd, which has the images, does not answer on %s: %w",
			s.machines.settings.Containerd, err)
	}
	return nil
}

// RuntimeConfig implements the CRI.
func (s *condition) RuntimeConfig(
	context.Context, *runtimeapi.RuntimeConfigRequest,
) (*runtimeapi.RuntimeConfigResponse, error) {
	info, err := host.Probe()
	if err != nil {
		return nil, err
	}
	driver := runtimeapi.CgroupDriver_CGROUPFS
	if info.SystemdCgroups() {
		driver = runtimeapi.CgroupDriver_SYSTEMD
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}}, nil
}

// UpdateRuntimeConfig implements the CRI. The pod network is set up by others.
func (s *condition) UpdateRuntimeConfig(
	context.Context, *runtimeapi.UpdateRuntimeConfigRequest,
) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// CheckpointContainer implements the CRI.
func (s *condition) CheckpointContainer(
	context.Context, *runtimeapi.CheckpointContainerRequest,
) (*runtimeapi.CheckpointContainerResponse, error) {
	return nil, status.Error(codes.Unimplemented, "a container in a virtual machine cannot be checkpointed")
}
