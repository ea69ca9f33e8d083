package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/vm/crilog"
	"github.com/a4s-io/a4s/agent/vm/disks"
	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/network"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/shares"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// attachTimeout is how long a machine and its guest may take to answer after a
// restart of the service.
const attachTimeout = 30 * time.Second

// recovery finds again what an earlier process of the runtime left, and removes what
// belongs to nothing.
type recovery struct {
	layout
	*tasks
	log      *logrus.Entry
	store    *store
	network  *network.Manager
	disks    *disks.Store
	machines *machines
	watcher  *watcher
	reaper   *reaper
	disk     *diskMachines
}

// all finds again what a predecessor left running, records what has
// ended since, and removes what belongs to nothing.
func (s *recovery) all() error {
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
			warn(s.log, s.store.containerDir.Remove(id), "removing the record of a container without a pod")
		}
	}
	for _, p := range s.store.allSandboxes() {
		if err := s.sandbox(p); err != nil {
			s.log.WithError(err).WithField("sandbox", p.id).Error("finding a pod again")
		}
	}
	s.sweep()
	return nil
}

func warn(log *logrus.Entry, err error, doing string) {
	if err != nil {
		log.WithError(err).Warn(doing)
	}
}

func (s *recovery) sandbox(p *sandbox) error {
	record := p.get()
	switch {
	case record.Phase == phaseCreating:
		for _, c := range s.store.allContainers(p) { // there are none
			warn(s.log, s.store.removeContainer(c), "removing a container of a pod that was not made")
		}
		if err := s.machines.destroy(&record, nil); err != nil {
			return err
		}
		return s.store.removeSandbox(p)
	case record.CleanedUp:
		s.reaper.loseAll(p)
		return nil
	case record.Phase == phaseStopped:
		// Whoever stops it again finishes that.
		p.stopping = true
		s.reaper.loseAll(p)
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, attachTimeout)
	defer cancel()
	m, err := s.machines.attach(ctx, p)
	if err == nil {
		s.watcher.adopt(p, m)
		warn(s.log, m.score(s.store.allContainers(p)), "setting the OOM score of a machine")
		if m.guest != nil {
			s.containers(ctx, p, m)
		} else {
			s.disk.recover(p, m)
		}
		return nil
	}
	if !errors.Is(err, qemu.ErrGone) {
		s.log.WithError(err).WithField("sandbox", p.id).Error("a machine cannot be used any more and is ended")
		if err := s.machines.end(ctx, s.podDir(p.id), nil); err != nil {
			return err
		}
	}
	s.reaper.loseAll(p)
	if record.BootsDisk {
		return nil // the next container boots it again
	}
	return s.store.updateSandbox(p, func(r *sandboxRecord) { r.Phase = phaseStopped })
}

// attach finds the machine of a pod again.
func (s *machines) attach(ctx context.Context, p *sandbox) (*machine, error) {
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

// containers compares what is recorded with what the guest runs.
func (s *recovery) containers(ctx context.Context, p *sandbox, m *machine) {
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
			warn(s.log, errors.Join(s.reaper.release(c), s.store.removeContainer(c)),
				"removing a container that was not made")
		case record.State == stateExited:
			warn(s.log, s.reaper.release(c), "tidying up after a container")
		case !there && err == nil:
			s.reaper.lose(c)
			warn(s.log, s.reaper.release(c), "tidying up after a container")
		case record.State == stateRunning, now.State == protocol.StateRunning, now.State == protocol.StateExited:
			// It may have been started just before the service ended.
			log, err := crilog.Open(record.LogPath)
			if err != nil {
				s.log.WithError(err).WithField("container", c.id).Error("the log of a container")
				log = crilog.Discard()
			}
			c.output.open(log)
			if record.State != stateRunning {
				warn(s.log, s.store.updateContainer(c, func(r *containerRecord) {
					r.State, r.Started, r.User = stateRunning, time.Now(), ids(now.UID, now.GIDs)
				}), "recording the start of a container")
			}
			s.watcher.watch(c, m)
		}
	}
}

// loseAll records the end of all containers of a pod without a machine.
func (s *reaper) loseAll(p *sandbox) {
	for _, c := range s.store.allContainers(p) {
		switch record := c.get(); {
		case record.State == stateCreating:
			warn(s.log, errors.Join(s.release(c), s.store.removeContainer(c)),
				"removing a container that was not made")
		case record.State == stateCreated && record.Disk && p.get().Phase == phaseReady:
			// Its machine has yet to be started.
		case record.State == stateCreated, record.State == stateRunning:
			s.lose(c)
			fallthrough
		default:
			warn(s.log, s.release(c), "tidying up after a container")
		}
	}
}

// sweep removes what belongs to no pod or container that is known.
func (s *recovery) sweep() {
	known := func(id string) bool { _, err := s.store.sandbox(id); return err == nil }
	left := map[string]bool{}
	entries, err := os.ReadDir(s.podsDir())
	warn(s.log, err, "looking for leftovers")
	for _, e := range entries {
		left[e.Name()] = !known(e.Name())
	}
	attachments, err := s.network.List()
	warn(s.log, err, "looking for leftovers")
	for _, id := range attachments {
		left[id] = !known(id)
	}
	for id, stray := range left {
		if stray {
			s.log.WithField("sandbox", id).Warn("removing what is left of an unknown pod")
			warn(s.log, s.machines.destroy(&sandboxRecord{ID: id, Config: sandboxConfig{}}, nil),
				"removing what is left of an unknown pod")
		}
	}
	entries, err = os.ReadDir(s.containersDir())
	warn(s.log, err, "looking for leftovers")
	for _, e := range entries {
		if _, err := s.store.container(e.Name()); err != nil {
			warn(s.log, os.RemoveAll(s.containerDir(e.Name())), "removing what is left of an unknown container")
		}
	}
	s.collectSoon()
}

// collectSoon removes base disks of images that are gone.
func (s *recovery) collectSoon() {
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
