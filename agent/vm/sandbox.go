package vm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/network"
	"github.com/a4s-io/a4s/internal/workload"
)

// BootAnnotation on a pod says what its machine boots. With "disk" no guest is
// started before the container is, which saves its boot; it is not needed: the
// image decides.
const (
	BootAnnotation = "a4s.io/vm-boot"
	bootDisk       = "disk"
)

// shutdownGrace is how long the guest has to sync and power off.
const shutdownGrace = 5 * time.Second

// shareGrace is how much later than its share a machine may end.
const shareGrace = 2 * time.Second

// sandboxes runs, stops and removes the sandboxes of pods.
type sandboxes struct {
	layout
	log        *logrus.Entry
	store      *store
	events     *events
	network    *network.Manager
	machines   *machines
	watcher    *watcher
	reaper     *reaper
	containers *containers
	// forget drops what is kept of a sandbox for statistics.
	forget func(id string)
}

// watcher waits for the end of machines and containers, and copies their output
// meanwhile.
type watcher struct {
	layout
	*tasks
	log    *logrus.Entry
	store  *store
	events *events
	reaper *reaper
}

// handlers are the runtime handlers that this runtime answers to.
func handlers() []string { return []string{"", string(workload.VM)} }

// RunPodSandbox implements the CRI.
func (s *sandboxes) RunPodSandbox(
	ctx context.Context, r *runtimeapi.RunPodSandboxRequest,
) (_ *runtimeapi.RunPodSandboxResponse, err error) {
	config := r.GetConfig()
	if !slices.Contains(handlers(), r.GetRuntimeHandler()) {
		return nil, status.Errorf(codes.InvalidArgument,
			"no runtime for %q is configured: this runtime has the handler %q", r.GetRuntimeHandler(), workload.VM)
	}
	if err := checkSandbox(config); err != nil {
		return nil, err
	}
	if err := s.machines.missing(); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "the node cannot run virtual machines: %v", err)
	}
	p := newSandbox(sandboxRecord{
		ID: newID(), Config: sandboxConfig{config}, Handler: r.GetRuntimeHandler(),
		Phase: phaseCreating, Created: time.Now(), Size: sizeOf(config.GetLinux(), s.machines.choice.Accelerator),
	})
	p.life.Lock()
	defer p.life.Unlock()
	// Recorded first: whatever comes of it, a successor knows of it.
	if err := s.store.addSandbox(p); err != nil {
		return nil, err
	}
	if err := s.run(ctx, p); err != nil {
		record := p.get()
		if undone := s.machines.destroy(&record, nil); undone != nil {
			// Stays recorded: removed at the next start, at the latest.
			s.log.WithError(undone).WithField("sandbox", p.id).Warn("cannot remove what is left of a sandbox")
			return nil, err
		}
		return nil, errors.Join(err, s.store.removeSandbox(p))
	}
	s.events.send(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, p, p.id)
	s.events.send(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, p, p.id)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: p.id}, nil
}

func (s *sandboxes) run(ctx context.Context, p *sandbox) error {
	record := p.get()
	if err := os.MkdirAll(s.podDir(p.id), 0o711); err != nil {
		return fmt.Errorf("directory of the pod: %w", err)
	}
	att, err := s.network.Setup(ctx, networkPod(&record))
	if errors.Is(err, network.ErrHostNetwork) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err != nil {
		return fmt.Errorf("connecting the pod to the network: %w", err)
	}
	ips := addresses(att.Addresses)
	if record.Config.P.GetAnnotations()[BootAnnotation] == bootDisk {
		return s.store.updateSandbox(p, func(r *sandboxRecord) { r.IPs, r.Phase, r.BootsDisk = ips, phaseReady, true })
	}
	m, err := s.machines.boot(ctx, &record, att)
	if err != nil {
		return err
	}
	if err := s.store.updateSandbox(p, func(r *sandboxRecord) { r.IPs, r.Phase = ips, phaseReady }); err != nil {
		return errors.Join(err, m.Kill(), m.close())
	}
	s.watcher.adopt(p, m)
	return nil
}

// addresses are IPv4 first, as the kubelet takes the first for the pod's own.
func addresses(all []netip.Prefix) []string {
	ips := make([]string, 0, len(all))
	for _, a := range all {
		ips = append(ips, a.Addr().String())
	}
	return ips
}

func networkPod(r *sandboxRecord) network.Pod {
	config := r.Config.P
	meta := config.GetMetadata()
	pod := network.Pod{
		ID: r.ID, Namespace: meta.GetNamespace(), Name: meta.GetName(), UID: meta.GetUid(),
		Annotations: config.GetAnnotations(), CgroupParent: config.GetLinux().GetCgroupParent(),
		Servers: config.GetDnsConfig().GetServers(), Searches: config.GetDnsConfig().GetSearches(),
		Options: config.GetDnsConfig().GetOptions(),
	}
	for _, m := range config.GetPortMappings() {
		if m.GetHostPort() <= 0 {
			continue
		}
		protocol := "tcp"
		switch m.GetProtocol() {
		case runtimeapi.Protocol_UDP:
			protocol = "udp"
		case runtimeapi.Protocol_SCTP:
			protocol = "sctp"
		}
		pod.PortMappings = append(pod.PortMappings, network.PortMapping{
			HostPort: m.GetHostPort(), ContainerPort: m.GetContainerPort(), Protocol: protocol, HostIP: m.GetHostIp(),
		})
	}
	return pod
}

// sharesProcesses says whether the containers of a pod see each other's
// processes.
func sharesProcesses(config *runtimeapi.PodSandboxConfig) bool {
	ns := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	return ns != nil && ns.GetPid() == runtimeapi.NamespaceMode_POD
}

// adopt takes a machine for the pod's and watches it.
func (s *watcher) adopt(p *sandbox, m *machine) {
	p.mu.Lock()
	p.machine = m
	p.mu.Unlock()
	s.background(func() {
		select {
		case <-s.ctx.Done():
			return // the machine goes on
		case <-m.shareEnded():
			// It ends with QEMU, too, and may be seen to end first.
			select {
			case <-m.Done():
			case <-time.After(shareGrace):
			}
			if m.Alive() {
				s.log.WithField("sandbox", p.id).Warn("the share of the pod's volumes ended; its machine cannot go on")
				if err := m.Kill(); err != nil {
					s.log.WithError(err).WithField("sandbox", p.id).Error("ending the machine")
				}
			}
			<-m.Done()
		case <-m.Done():
		}
		s.ended(p, m)
	})
}

// ended records the end of a machine, whatever ended it.
func (s *watcher) ended(p *sandbox, m *machine) {
	p.mu.Lock()
	current := p.machine == m // else it was ended to boot another one
	if current {
		p.machine = nil
	}
	ready := p.record.Phase == phaseReady
	p.mu.Unlock()
	if current && ready && m.guest != nil {
		s.log.WithField("sandbox", p.id).Warn("the machine of a pod ended by itself")
		if err := s.store.updateSandbox(p, func(r *sandboxRecord) { r.Phase = phaseStopped }); err != nil {
			s.log.WithError(err).WithField("sandbox", p.id).Error("recording the end of a machine")
		}
		s.events.send(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, p, p.id)
	}
	// Ends what waits for its containers, too.
	if err := m.close(); err != nil {
		s.log.WithError(err).WithField("sandbox", p.id).Debug("closing a machine that has ended")
	}
}

// StopPodSandbox implements the CRI.
func (s *sandboxes) StopPodSandbox(
	ctx context.Context, r *runtimeapi.StopPodSandboxRequest,
) (*runtimeapi.StopPodSandboxResponse, error) {
	p, err := s.store.sandbox(r.GetPodSandboxId())
	if status.Code(err) == codes.NotFound {
		return &runtimeapi.StopPodSandboxResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, s.stop(ctx, p)
}

func (s *sandboxes) stop(ctx context.Context, p *sandbox) error {
	p.life.Lock()
	defer p.life.Unlock()
	record := p.get()
	if record.CleanedUp {
		return nil
	}
	wasReady := record.Phase == phaseReady
	// Recorded first, so that its end is nothing to be surprised by.
	if err := s.store.updateSandbox(p, func(r *sandboxRecord) { r.Phase = phaseStopped }); err != nil {
		return err
	}
	p.mu.Lock()
	m := p.machine
	p.stopping = true
	p.mu.Unlock()
	if m != nil {
		s.powerOff(ctx, p, m)
	}
	if err := s.machines.destroy(&record, m); err != nil {
		return fmt.Errorf("removing what is left of the sandbox: %w", err)
	}
	for _, c := range s.store.allContainers(p) {
		s.reaper.lose(c)
	}
	if err := s.store.updateSandbox(p, func(r *sandboxRecord) { r.CleanedUp = true }); err != nil {
		return err
	}
	if wasReady {
		s.events.send(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, p, p.id)
	}
	return nil
}

// powerOff lets a guest sync its disks and end. What does not end is killed
// by who destroys the sandbox.
func (s *sandboxes) powerOff(ctx context.Context, p *sandbox, m *machine) {
	ctx, cancel := context.WithTimeout(ctx, 2*shutdownGrace)
	defer cancel()
	var err error
	if m.guest != nil {
		if err = m.guest.Shutdown(ctx, 0); err == nil {
			err = m.Wait(ctx)
		}
	} else {
		err = m.Stop(ctx, shutdownGrace)
	}
	if err != nil {
		s.log.WithError(err).WithField("sandbox", p.id).Warn("a guest does not power off by itself")
	}
}

// RemovePodSandbox implements the CRI.
func (s *sandboxes) RemovePodSandbox(
	ctx context.Context, r *runtimeapi.RemovePodSandboxRequest,
) (*runtimeapi.RemovePodSandboxResponse, error) {
	p, err := s.store.sandbox(r.GetPodSandboxId())
	if status.Code(err) == codes.NotFound {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.stop(ctx, p); err != nil {
		return nil, err
	}
	for _, c := range s.store.allContainers(p) {
		if err := s.containers.remove(ctx, c); err != nil {
			return nil, err
		}
	}
	p.life.Lock()
	defer p.life.Unlock()
	if err := s.store.removeSandbox(p); err != nil {
		return nil, err
	}
	s.forget(p.id)
	s.events.send(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, p, p.id)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}
