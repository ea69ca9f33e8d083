package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// chunk is how many items one message of a streaming list holds.
const chunk = 100

// lists answers what sandboxes and containers there are, from the records.
type lists struct{ store *store }

// PodSandboxStatus implements the CRI.
func (s *lists) PodSandboxStatus(
	_ context.Context, r *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	p, err := s.store.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	record := p.get()
	answer := &runtimeapi.PodSandboxStatusResponse{Status: sandboxStatus(&record), Timestamp: time.Now().UnixNano()}
	if r.GetVerbose() {
		answer.Info, err = info(record)
	}
	return answer, err
}

// info is a record for people.
func info(record any) (map[string]string, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("printing a record: %w", err)
	}
	return map[string]string{"info": string(data)}, nil
}

func sandboxStatus(r *sandboxRecord) *runtimeapi.PodSandboxStatus {
	config := r.Config.P
	options := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	st := &runtimeapi.PodSandboxStatus{
		Id:             r.ID,
		Metadata:       config.GetMetadata(),
		State:          sandboxState(r),
		CreatedAt:      r.Created.UnixNano(),
		Network:        &runtimeapi.PodSandboxNetworkStatus{},
		Linux:          &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
		Labels:         config.GetLabels(),
		Annotations:    config.GetAnnotations(),
		RuntimeHandler: r.Handler,
	}
	for i, ip := range r.IPs {
		if i == 0 {
			st.Network.Ip = ip
			continue
		}
		st.Network.AdditionalIps = append(st.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
	}
	return st
}

func sandboxState(r *sandboxRecord) runtimeapi.PodSandboxState {
	if r.Phase == phaseReady {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// ListPodSandbox implements the CRI.
func (s *lists) ListPodSandbox(
	_ context.Context, r *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: s.sandboxes(r.GetFilter())}, nil
}

// StreamPodSandboxes implements the CRI.
func (s *lists) StreamPodSandboxes(
	r *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse],
) error {
	return inChunks(s.sandboxes(r.GetFilter()), func(some []*runtimeapi.PodSandbox) error {
		return stream.Send(&runtimeapi.StreamPodSandboxesResponse{PodSandboxes: some})
	})
}

func inChunks[T any](all []T, send func([]T) error) error {
	for len(all) > 0 {
		n := min(len(all), chunk)
		if err := send(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func (s *lists) sandboxes(f *runtimeapi.PodSandboxFilter) []*runtimeapi.PodSandbox {
	var items []*runtimeapi.PodSandbox
	only := ""
	if f.GetId() != "" {
		p, err := s.store.sandbox(f.GetId())
		if err != nil {
			return nil // nothing matches
		}
		only = p.id
	}
	for _, p := range s.store.allSandboxes() {
		if only != "" && p.id != only {
			continue
		}
		record := p.get()
		// Nobody has been told of it, and it may be removed again.
		if record.Phase == phaseCreating {
			continue
		}
		config := record.Config.P
		if f.GetState() != nil && f.GetState().GetState() != sandboxState(&record) ||
			!selected(f.GetLabelSelector(), config.GetLabels()) {
			continue
		}
		items = append(items, &runtimeapi.PodSandbox{
			Id: record.ID, Metadata: config.GetMetadata(), State: sandboxState(&record),
			CreatedAt: record.Created.UnixNano(),
			Labels:    config.GetLabels(), Annotations: config.GetAnnotations(), RuntimeHandler: record.Handler,
		})
	}
	return items
}

func selected(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// ContainerStatus implements the CRI.
func (s *lists) ContainerStatus(
	_ context.Context, r *runtimeapi.ContainerStatusRequest,
) (*runtimeapi.ContainerStatusResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	record := c.get()
	answer := &runtimeapi.ContainerStatusResponse{Status: containerStatus(&record)}
	if r.GetVerbose() {
		answer.Info, err = info(record)
	}
	return answer, err
}

func containerStatus(r *containerRecord) *runtimeapi.ContainerStatus {
	config := r.Config.P
	st := &runtimeapi.ContainerStatus{
		Id:          r.ID,
		Metadata:    config.GetMetadata(),
		State:       criState(r.State),
		CreatedAt:   r.Created.UnixNano(),
		StartedAt:   nanos(r.Started),
		FinishedAt:  nanos(r.Finished),
		ExitCode:    int32(r.ExitCode),
		Image:       imageSpec(r),
		ImageRef:    r.ImageRef,
		ImageId:     r.ImageID,
		Reason:      r.Reason,
		Message:     r.Message,
		Labels:      config.GetLabels(),
		Annotations: config.GetAnnotations(),
		Mounts:      config.GetMounts(),
		LogPath:     r.LogPath,
		StopSignal:  runtimeapi.Signal(runtimeapi.Signal_value[r.StopSignal]),
		Resources:   &runtimeapi.ContainerResources{Linux: config.GetLinux().GetResources()},
	}
	if r.User != nil {
		st.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
			Uid: r.User.UID, Gid: r.User.GID, SupplementalGroups: r.User.Groups,
		}}
	}
	return st
}

func imageSpec(r *containerRecord) *runtimeapi.ImageSpec {
	spec := r.Config.P.GetImage()
	return &runtimeapi.ImageSpec{
		Image: r.ImageName, Annotations: spec.GetAnnotations(),
		UserSpecifiedImage: spec.GetUserSpecifiedImage(), RuntimeHandler: spec.GetRuntimeHandler(),
	}
}

// nanos is 0 for no time at all, as the CRI wants it.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func criState(s containerState) runtimeapi.ContainerState {
	switch s {
	case stateCreated:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	case stateRunning:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	case stateExited:
		return runtimeapi.ContainerState_CONTAINER_EXITED
	}
	return runtimeapi.ContainerState_CONTAINER_UNKNOWN
}

// ListContainers implements the CRI.
func (s *lists) ListContainers(
	_ context.Context, r *runtimeapi.ListContainersRequest,
) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: s.containers(r.GetFilter())}, nil
}

// StreamContainers implements the CRI.
func (s *lists) StreamContainers(
	r *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse],
) error {
	return inChunks(s.containers(r.GetFilter()), func(some []*runtimeapi.Container) error {
		return stream.Send(&runtimeapi.StreamContainersResponse{Containers: some})
	})
}

func (s *lists) containers(f *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	var items []*runtimeapi.Container
	for _, c := range s.store.matching(f.GetId(), f.GetPodSandboxId(), f.GetLabelSelector()) {
		record := c.get()
		if f.GetState() != nil && f.GetState().GetState() != criState(record.State) {
			continue
		}
		config := record.Config.P
		items = append(items, &runtimeapi.Container{
			Id: record.ID, PodSandboxId: record.SandboxID, Metadata: config.GetMetadata(),
			Image: imageSpec(&record), ImageRef: record.ImageRef, ImageId: record.ImageID,
			State:     criState(record.State),
			CreatedAt: record.Created.UnixNano(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		})
	}
	return items
}

// matching returns the containers that match an id, a sandbox' id (both
// may be beginnings, empty is any) and labels.
func (s *store) matching(id, sandboxID string, labels map[string]string) []*container {
	if id != "" {
		c, err := s.container(id)
		if err != nil {
			return nil // nothing matches
		}
		id = c.id
	}
	var pod *sandbox
	if sandboxID != "" {
		var err error
		if pod, err = s.sandbox(sandboxID); err != nil {
			return nil
		}
	}
	var match []*container
	for _, c := range s.allContainers(pod) {
		if (id == "" || c.id == id) && selected(labels, c.labels) {
			match = append(match, c)
		}
	}
	return match
}
