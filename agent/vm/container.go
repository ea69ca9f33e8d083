package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/disks"
	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/shares"
)

// removeTimeout bounds what is undone of a container, which goes on even if
// who asked for it has gone.
const removeTimeout = 30 * time.Second

// containers creates, starts, stops and removes containers.
type containers struct {
	layout
	log       *logrus.Entry
	store     *store
	events    *events
	images    runtimeapi.ImageServiceClient
	disks     *disks.Store
	sandboxes *sandboxes
	disk      *diskMachines
	watcher   *watcher
	reaper    *reaper
}

// CreateContainer implements the CRI.
func (s *containers) CreateContainer(
	ctx context.Context, r *runtimeapi.CreateContainerRequest,
) (*runtimeapi.CreateContainerResponse, error) {
	p, err := s.store.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	config := r.GetConfig()
	if config.GetMetadata().GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "the container has no name")
	}
	if phase := p.get().Phase; phase != phaseReady {
		return nil, status.Errorf(codes.FailedPrecondition, "sandbox %s is not ready", p.id)
	}
	record := containerRecord{
		ID: newID(), SandboxID: p.id, Config: containerConfig{config},
		State: stateCreating, Created: time.Now(),
	}
	if dir, path := r.GetSandboxConfig().GetLogDirectory(), config.GetLogPath(); dir != "" && path != "" {
		record.LogPath = filepath.Join(dir, path)
	}
	if err := s.resolve(ctx, &record); err != nil {
		return nil, err
	}
	// What goes without saying: pulling put the image there already, what may
	// take its time is making a disk of it, once.
	image, err := s.disks.Prepare(ctx, record.ImageID)
	if err != nil {
		return nil, fmt.Errorf("making a disk of image %s: %w", imageFor(config.GetImage()), err)
	}
	record.Disk = image.Bootable
	record.StopSignal = stopSignal(config, image.Config.StopSignal)
	c := newContainer(p, record)
	c.life.Lock()
	defer c.life.Unlock()
	if err := s.store.addContainer(c); err != nil {
		return nil, err
	}
	if err := s.create(ctx, c, image); err != nil {
		if undone := s.reaper.release(c); undone != nil {
			s.log.WithError(undone).WithField("container", c.id).Warn("cannot remove what is left of a container")
			return nil, err
		}
		return nil, errors.Join(err, s.store.removeContainer(c))
	}
	s.events.send(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, p, c.id)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// resolve asks containerd which image the container means.
func (s *containers) resolve(ctx context.Context, r *containerRecord) error {
	spec := r.Config.P.GetImage()
	answer, err := s.images.ImageStatus(ctx,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: spec.GetImage()}})
	if err != nil {
		return fmt.Errorf("asking for image %s: %w", imageFor(spec), err)
	}
	image := answer.GetImage()
	if image == nil {
		return status.Errorf(codes.NotFound, "image %s: not found", imageFor(spec))
	}
	r.ImageID, r.ImageRef, r.ImageName = image.GetId(), image.GetId(), spec.GetImage()
	if refs := image.GetRepoDigests(); len(refs) > 0 {
		r.ImageRef = refs[0]
	}
	if tags := image.GetRepoTags(); len(tags) > 0 {
		r.ImageName = tags[0]
	}
	return nil
}

// create makes what the container needs and hands it to the guest.
func (s *containers) create(ctx context.Context, c *container, image *disks.Image) error {
	p := c.pod
	config := c.get().Config.P
	if err := os.MkdirAll(s.containerDir(c.id), 0o700); err != nil {
		return fmt.Errorf("directory of the container: %w", err)
	}
	if err := s.disks.Overlay(ctx, image, s.rootDisk(c.id), 0); err != nil {
		return fmt.Errorf("making the container's disk: %w", err)
	}
	if image.Bootable {
		if err := s.disk.create(ctx, c, image); err != nil {
			return err
		}
		return s.store.updateContainer(c, func(r *containerRecord) { r.State = stateCreated })
	}
	shown, mounts, err := mountsOf(c.id, config)
	if err != nil {
		return err
	}
	inGuest, err := guestContainer(c.id, config, &image.Config, mounts)
	if err != nil {
		return err
	}
	// One change at a time: a pod that is stopped gets no more containers.
	p.life.Lock()
	defer p.life.Unlock()
	m, err := s.sandboxes.guestMachine(ctx, p)
	if err != nil {
		return err
	}
	for _, mount := range shown {
		// As with containers: a hostPath that does not exist is made.
		if _, err := os.Stat(mount.Source); errors.Is(err, fs.ErrNotExist) {
			if err := os.MkdirAll(mount.Source, 0o755); err != nil {
				return fmt.Errorf("making the source of a mount: %w", err)
			}
		}
		if err := shares.Add(m.dir, mount); err != nil {
			return fmt.Errorf("showing %s to the guest: %w", mount.Source, err)
		}
	}
	if err := m.Plug(ctx,
		qemu.Disk{ID: serial(c.id), Path: s.rootDisk(c.id), Format: "qcow2", Serial: serial(c.id)}); err != nil {
		return fmt.Errorf("plugging in the container's disk: %w", err)
	}
	if err := m.guest.Create(ctx, inGuest); err != nil {
		return guestError("creating the container in its guest", err)
	}
	if err := m.score(s.store.allContainers(p)); err != nil {
		return err
	}
	return s.store.updateContainer(c, func(r *containerRecord) { r.State, r.Process = stateCreated, inGuest.Process })
}

// guestMachine returns the pod's machine with the embedded guest. A pod that
// was to boot a disk, or did, gets one now.
func (s *sandboxes) guestMachine(ctx context.Context, p *sandbox) (*machine, error) {
	record := p.get()
	if record.Phase != phaseReady {
		return nil, status.Errorf(codes.FailedPrecondition, "sandbox %s is not ready", p.id)
	}
	if m := p.running(); m != nil {
		if m.guest == nil {
			return nil, refused("of a disk image has one container")
		}
		return m, nil
	}
	att, err := s.network.Get(p.id)
	if err != nil {
		return nil, fmt.Errorf("the pod's network: %w", err)
	}
	if err := s.store.updateSandbox(p, func(r *sandboxRecord) { r.BootsDisk = false }); err != nil {
		return nil, err
	}
	m, err := s.machines.boot(ctx, &record, att)
	if err != nil {
		return nil, err
	}
	s.watcher.adopt(p, m)
	return m, nil
}

// guestError gives what the guest says the code that it has in the CRI.
func guestError(doing string, err error) error {
	code := codes.Unknown
	switch {
	case errors.Is(err, guest.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, guest.ErrInvalid), errors.Is(err, guest.ErrNoExecutable):
		code = codes.InvalidArgument
	case errors.Is(err, guest.ErrUnsupported):
		code = codes.Unimplemented
	case errors.Is(err, guest.ErrState):
		code = codes.FailedPrecondition
	case errors.Is(err, guest.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, guest.ErrDisconnected), errors.Is(err, guest.ErrClosed):
		code = codes.Unavailable
	}
	return status.Errorf(code, "%s: %v", doing, err)
}

// release removes what there is of a container on this machine, but for record
// and log. It may be repeated.
func (s *reaper) release(c *container) error {
	if c.get().Released {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), removeTimeout)
	defer cancel()
	var errs []error
	if m := c.pod.running(); m != nil && m.guest != nil && m.Alive() {
		err := m.guest.Remove(ctx, c.id)
		if err == nil {
			err = m.Unplug(ctx, serial(c.id))
		}
		// A machine that ends meanwhile has nothing left of it.
		if err != nil && m.Alive() {
			errs = append(errs, err)
		}
	}
	if err := shares.Remove(s.podDir(c.pod.id), c.id); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing container %s: %w", c.id, err)
	}
	if err := os.RemoveAll(s.containerDir(c.id)); err != nil {
		return fmt.Errorf("removing container %s: %w", c.id, err)
	}
	return s.store.updateContainer(c, func(r *containerRecord) { r.Released = true })
}

// RemoveContainer implements the CRI.
func (s *containers) RemoveContainer(
	ctx context.Context, r *runtimeapi.RemoveContainerRequest,
) (*runtimeapi.RemoveContainerResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if status.Code(err) == codes.NotFound {
		return &runtimeapi.RemoveContainerResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.RemoveContainerResponse{}, s.remove(ctx, c)
}

func (s *containers) remove(ctx context.Context, c *container) error {
	if c.get().State == stateRunning {
		if err := s.stop(ctx, c, 0); err != nil {
			return err
		}
	}
	c.life.Lock()
	defer c.life.Unlock()
	if err := s.reaper.release(c); err != nil {
		return err
	}
	if err := s.store.removeContainer(c); err != nil {
		return err
	}
	s.events.send(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, c.pod, c.id)
	return nil
}

// UpdateContainerResources implements the CRI.
func (s *containers) UpdateContainerResources(
	ctx context.Context, r *runtimeapi.UpdateContainerResourcesRequest,
) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	c.life.Lock()
	defer c.life.Unlock()
	record := c.get()
	if record.State == stateExited {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s has ended", c.id)
	}
	m := c.pod.running()
	if m == nil || m.guest == nil {
		return nil, refused("of a disk image has no limits but those of its machine")
	}
	if err := m.guest.Update(ctx, c.id, resourcesOf(r.GetLinux())); err != nil {
		return nil, guestError("changing the limits of the container", err)
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, s.store.updateContainer(c, func(record *containerRecord) {
		record.Config = withResources(record.Config, r.GetLinux())
	})
}

// UpdatePodSandboxResources implements the CRI. A machine keeps its size; the
// limits of containers change within it.
func (s *sandboxes) UpdatePodSandboxResources(
	_ context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest,
) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	p, err := s.store.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	have, want := p.get().Size, sizeOf(&runtimeapi.LinuxPodSandboxConfig{
		Resources: r.GetResources(),
		Overhead:  r.GetOverhead(),
	}, s.machines.choice.Accelerator)
	if want.CPUs > have.CPUs || want.MemoryMB > have.MemoryMB {
		return nil, status.Errorf(codes.OutOfRange, "the machine of sandbox %s has %d CPUs and %d MB of memory, "+
			"and does not grow while it runs", p.id, have.CPUs, have.MemoryMB)
	}
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}
