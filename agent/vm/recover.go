package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/a4s-io/a4s/agent/vm/crilog"
	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/shares"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// attachTimeout is how long a machine and its guest may take to answer after a
// restart of the service.
const attachTimeout = 30 * time.Second

// recoverAll finds again what a predecessor left running, records what has
// ended since, and removes what belongs to nothing.
func (s *service) recoverAll() error {
	sandboxes, err := s.store.sandboxDir.All()
	if err != nil {
		// What it was about stays, for people to look at.
		s.log.WithError(err).Error("some pods are not known any more")
		if sandboxes == nil {
			return err
		}
	}
	containers, err := s.store.containerDir.All()
	if err != nil {
		s.log.WithError(err).Error("some containers are not known any more")
		if containers == nil {
			return err
		}
	}
	ofPod := map[string][]*containerRecord{}
	for _, r := range containers {
		ofPod[r.SandboxID] = append(ofPod[r.SandboxID], r)
	}
	for id, r := range sandboxes {
		p := newSandbox(*r)
		s.store.mu.Lock()
		s.store.sandboxes[id], s.store.names[p.name] = p, id
		for _, of := range ofPod[id] {
			c := newContainer(p, *of)
			s.store.containers[c.id], s.store.names[c.name] = c, c.id
		}
		s.store.mu.Unlock()
	}
	for id, r := range containers {
		if sandboxes[r.SandboxID] == nil {
			s.warn(s.store.containerDir.Remove(id), "removing the record of a container without a pod")
		}
	}
	for _, p := range s.store.allSandboxes() {
		if err := s.recoverSandbox(p); err != nil {
			s.log.WithError(err).WithField("sandbox", p.id).Error("finding a pod again")
		}
	}
	s.sweep()
	return nil
}

func (s *service) warn(err error, doing string) {
	if err != nil {
		s.log.WithError(err).Warn(doing)
	}
}

func (s *service) recoverSandbox(p *sandbox) error {
	record := p.get()
	switch {
	case record.Phase == phaseCreating:
		for _, c := range s.store.allContainers(p) { // there are none
			s.warn(s.store.removeContainer(c), "removing a container of a pod that was not made")
		}
		if err := s.destroy(&record, nil); err != nil {
			return err
		}
		return s.store.removeSandbox(p)
	case record.CleanedUp:
		s.loseAll(p)
		return nil
	case record.Phase == phaseStopped:
		// Whoever stops it again finishes that.
		p.stopping = true
		s.loseAll(p)
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, attachTimeout)
	defer cancel()
	m, err := s.attach(ctx, p)
	if err == nil {
		s.adopt(p, m)
		if m.guest != nil {
			s.recoverContainers(ctx, p, m)
		} else {
			s.recoverDisk(p, m)
		}
		return nil
	}
	if !errors.Is(err, qemu.ErrGone) {
		s.log.WithError(err).WithField("sandbox", p.id).Error("a machine cannot be used any more and is ended")
		if err := s.endMachine(ctx, s.podDir(p.id), nil); err != nil {
			return err
		}
	}
	s.loseAll(p)
	if record.BootsDisk {
		return nil // the next container boots it again
	}
	return s.store.updateSandbox(p, func(r *sandboxRecord) { r.Phase = phaseStopped })
}

// attach finds the machine of a pod again.
func (s *service) attach(ctx context.Context, p *sandbox) (*machine, error) {
	dir := s.podDir(p.id)
	q, err := qemu.Attach(ctx, dir)
	if err != nil {
		return nil, err
	}
	if p.get().BootsDisk {
		return handle(q, dir, nil), nil
	}
	share, err := shares.Attach(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the share of the pod's volumes: %w", err), q.Close())
	}
	m := handle(q, dir, share)
	if _, err := m.guest.Ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the guest does not answer: %w", err), m.close())
	}
	return m, nil
}

// recoverContainers compares what is recorded with what the guest runs.
func (s *service) recoverContainers(ctx context.Context, p *sandbox, m *machine) {
	inGuest := map[string]guest.ContainerStatus{}
	list, err := m.guest.List(ctx)
	if err != nil {
		s.log.WithError(err).WithField("sandbox", p.id).Error("asking the guest for its containers")
	}
	for _, c := range list {
		inGuest[c.ID] = c
	}
	for _, c := range s.store.allContainers(p) {
		record := c.get()
		now, there := inGuest[c.id]
		switch {
		case record.State == stateCreating:
			s.warn(errors.Join(s.release(c), s.store.removeContainer(c)), "removing a container that was not made")
		case record.State == stateExited:
			s.warn(s.release(c), "tidying up after a container")
		case !there && err == nil:
			s.lose(c)
			s.warn(s.release(c), "tidying up after a container")
		case record.State == stateRunning, now.State == protocol.StateRunning, now.State == protocol.StateExited:
			// It may have been started just before the service ended.
			log, err := crilog.Open(record.LogPath)
			if err != nil {
				s.log.WithError(err).WithField("container", c.id).Error("the log of a container")
				log = crilog.Discard()
			}
			c.output.open(log)
			if record.State != stateRunning {
				s.warn(s.store.updateContainer(c, func(r *containerRecord) {
					r.State, r.Started, r.User = stateRunning, time.Now(), ids(now.UID, now.GIDs)
				}), "recording the start of a container")
			}
			s.watch(c, m)
		}
	}
}

// loseAll records the end of all containers of a pod without a machine.
func (s *service) loseAll(p *sandbox) {
	for _, c := range s.store.allContainers(p) {
		switch record := c.get(); {
		case record.State == stateCreating:
			s.warn(errors.Join(s.release(c), s.store.removeContainer(c)), "removing a container that was not made")
		case record.State == stateCreated && record.Disk && p.get().Phase == phaseReady:
			// Its machine has yet to be started.
		case record.State == stateCreated, record.State == stateRunning:
			s.lose(c)
			fallthrough
		default:
			s.warn(s.release(c), "tidying up after a container")
		}
	}
}

// sweep removes what belongs to no pod or container that is known.
func (s *service) sweep() {
	known := func(id string) bool { _, err := s.store.sandbox(id); return err == nil }
	left := map[string]bool{}
	entries, err := os.ReadDir(s.podsDir())
	s.warn(err, "looking for leftovers")
	for _, e := range entries {
		left[e.Name()] = !known(e.Name())
	}
	attachments, err := s.network.List()
	s.warn(err, "looking for leftovers")
	for _, id := range attachments {
		left[id] = !known(id)
	}
	for id, stray := range left {
		if stray {
			s.log.WithField("sandbox", id).Warn("removing what is left of an unknown pod")
			s.warn(s.destroy(&sandboxRecord{ID: id, Config: sandboxConfig{}}, nil), "removing what is left of an unknown pod")
		}
	}
	entries, err = os.ReadDir(s.containersDir())
	s.warn(err, "looking for leftovers")
	for _, e := range entries {
		if _, err := s.store.container(e.Name()); err != nil {
			s.warn(os.RemoveAll(s.containerDir(e.Name())), "removing what is left of an unknown container")
		}
	}
	s.collectSoon()
}

// collectSoon removes base disks of images that are gone.
func (s *service) collectSoon() {
	s.background(func() {
		freed, err := s.disks.Collect(s.ctx)
		if err != nil && s.ctx.Err() == nil {
			s.log.WithError(err).Warn("removing the disks of images that are gone")
		}
		if freed > 0 {
			s.log.Infof("removed disks of images that are gone: %d MB", freed/mebibyte)
		}
	})
}
