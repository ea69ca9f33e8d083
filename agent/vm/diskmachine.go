package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/a4s-io/a4s/agent/vm/crilog"
	"github.com/a4s-io/a4s/agent/vm/disks"
	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/network"
	"github.com/a4s-io/a4s/agent/vm/qemu"
)

const (
	// agentSocket is the host's end of qemu-guest-agent's port, agentPort the
	// name that the agent looks for.
	agentSocket = "agent.sock"
	agentPort   = "org.qemu.guest_agent.0"
	// seedFile is cloud-init's seed, offsetFile how much of the console is in
	// the log.
	seedFile   = "seed.iso"
	offsetFile = "console.offset"
	// consoleInterval is how often the console is looked at.
	consoleInterval = 200 * time.Millisecond
	// UserDataVariable is the variable of a container whose value is
	// cloud-init's user data in a machine that boots the disk of its image.
	UserDataVariable = "A4S_USER_DATA"
)

// diskMachines runs pods whose machine boots the disk in their image.
type diskMachines struct {
	layout
	log      *logrus.Entry
	store    *store
	network  *network.Manager
	machines *machines
	watcher  *watcher
	reaper   *reaper
}

// create makes what a machine that boots a disk needs. Its overlay
// exists.
func (s *diskMachines) create(ctx context.Context, c *container, image *disks.Image) error {
	p := c.pod
	p.life.Lock()
	defer p.life.Unlock()
	for _, other := range s.store.allContainers(p) {
		if other != c && other.get().State != stateExited {
			return refused("of a disk image (%s) has one container; %s is another one",
				imageFor(c.get().Config.P.GetImage()), other.name)
		}
	}
	record := p.get()
	if record.Phase != phaseReady {
		return status.Errorf(codes.FailedPrecondition, "sandbox %s is not ready", p.id)
	}
	if err := s.store.updateSandbox(p, func(r *sandboxRecord) { r.BootsDisk = true }); err != nil {
		return err
	}
	// The embedded guest is not what this pod runs.
	if m := p.running(); m != nil {
		p.mu.Lock()
		p.machine = nil
		p.mu.Unlock()
		if err := s.endBoot(ctx, p, m); err != nil {
			return err
		}
	}
	att, err := s.network.Get(p.id)
	if err != nil {
		return fmt.Errorf("the pod's network: %w", err)
	}
	seed, err := seedOf(&record, att, c)
	if err != nil {
		return err
	}
	if err := disks.WriteSeed(filepath.Join(s.containerDir(c.id), seedFile), seed); err != nil {
		return fmt.Errorf("making cloud-init's seed: %w", err)
	}
	return nil
}

// endBoot ends the embedded guest of a pod that boots a disk instead.
func (s *diskMachines) endBoot(ctx context.Context, p *sandbox, m *machine) error {
	err := s.machines.end(ctx, m.dir, m)
	if err == nil {
		err = m.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("ending the guest that the pod does not need: %w", err)
	}
	s.log.WithField("sandbox", p.id).Infof("the image carries a disk to boot; "+
		"annotation %s=%s spares the boot of another guest", BootAnnotation, bootDisk)
	return nil
}

// seedOf is what cloud-init learns of the pod.
func seedOf(r *sandboxRecord, att *network.Attachment, c *container) (disks.Seed, error) {
	config := r.Config.P
	name := config.GetHostname()
	if name == "" {
		name = config.GetMetadata().GetName()
	}
	// JSON is YAML, and cannot be broken by what names hold.
	meta, err := json.Marshal(map[string]string{"instance-id": c.id, "local-hostname": name})
	if err != nil {
		return disks.Seed{}, err
	}
	var addresses []string
	for _, a := range att.Addresses {
		addresses = append(addresses, a.String())
	}
	type route struct {
		To  string `json:"to"`
		Via string `json:"via,omitempty"`
	}
	var routes []route
	for _, r := range att.Routes {
		if r.Gateway.IsValid() {
			routes = append(routes, route{r.Destination.String(), r.Gateway.String()})
		}
	}
	net, err := json.Marshal(map[string]any{
		"version": 2,
		"ethernets": map[string]any{nicName: map[string]any{
			"match": map[string]string{"macaddress": att.MAC}, "set-name": nicName,
			"mtu": att.MTU, "addresses": addresses, "routes": routes,
			"nameservers": map[string]any{"addresses": config.GetDnsConfig().GetServers(),
				"search": config.GetDnsConfig().GetSearches()},
		}},
	})
	if err != nil {
		return disks.Seed{}, err
	}
	seed := disks.Seed{MetaData: meta, NetworkConfig: net, UserData: []byte("#cloud-config\n{}\n")}
	for _, e := range c.get().Config.P.GetEnvs() {
		if e.GetKey() == UserDataVariable {
			seed.UserData = []byte(e.GetValue())
		}
	}
	return seed, nil
}

// start boots the disk of the container.
func (s *diskMachines) start(ctx context.Context, c *container) error {
	p := c.pod
	p.life.Lock()
	defer p.life.Unlock()
	record := p.get()
	if m := p.running(); record.Phase != phaseReady || m != nil && m.Alive() {
		return status.Errorf(codes.FailedPrecondition, "sandbox %s is not ready to boot a disk", p.id)
	}
	att, err := s.network.Get(p.id)
	if err != nil {
		return fmt.Errorf("the pod's network: %w", err)
	}
	group, err := s.machines.cgroup(&record)
	if err != nil {
		return err
	}
	// A new machine has a new console.
	for _, path := range []string{qemu.ConsolePath(s.podDir(p.id)), s.offsetFile(p)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	log, err := crilog.Open(c.get().LogPath)
	if err != nil {
		return err
	}
	config := s.machines.config(&record)
	config.Disks = []qemu.Disk{
		{ID: serial(c.id), Path: s.rootDisk(c.id), Format: "qcow2", Serial: serial(c.id)},
		{ID: "seed", Path: filepath.Join(s.containerDir(c.id), seedFile), Format: "raw",
			Serial: "seed", ReadOnly: true},
	}
	config.Ports = []qemu.Port{{Name: agentPort, Socket: agentSocket}}
	config.Reboot = true // a system that restarts itself has not ended
	q, err := s.machines.start(ctx, config, p.id, att, group)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	m := handle(q, s.podDir(p.id), nil)
	c.output.open(log)
	err = m.score([]*container{c})
	if err == nil {
		err = s.store.updateContainer(c, func(r *containerRecord) { r.State, r.Started = stateRunning, time.Now() })
	}
	if err != nil {
		return errors.Join(err, q.Kill(), m.close())
	}
	s.watcher.adopt(p, m)
	s.watcher.watchDisk(c, m)
	return nil
}

// recover goes on watching a machine that a predecessor booted.
func (s *diskMachines) recover(p *sandbox, m *machine) {
	for _, c := range s.store.allContainers(p) {
		switch record := c.get(); {
		case record.State == stateCreating:
			warn(s.log, errors.Join(s.reaper.release(c), s.store.removeContainer(c)),
				"removing a container that was not made")
		case record.State == stateExited:
			warn(s.log, s.reaper.release(c), "tidying up after a container")
		case record.Disk:
			log, err := crilog.Open(record.LogPath)
			if err != nil {
				s.log.WithError(err).WithField("container", c.id).Error("the log of a container")
				log = crilog.Discard()
			}
			c.output.open(log)
			if record.State != stateRunning {
				warn(s.log, s.store.updateContainer(c, func(r *containerRecord) {
					r.State, r.Started = stateRunning, time.Now()
				}), "recording the start of a container")
			}
			s.watcher.watchDisk(c, m)
		}
	}
}

func (s layout) offsetFile(p *sandbox) string { return filepath.Join(s.podDir(p.id), offsetFile) }

// watchDisk copies the console to the log and records the end of the machine.
func (s *watcher) watchDisk(c *container, m *machine) {
	s.background(func() {
		tick := time.NewTicker(consoleInterval)
		defer tick.Stop()
		for over := false; !over; {
			select {
			case <-s.ctx.Done():
				return // the machine goes on, and its console is kept
			case <-m.Done():
				over = true
			case <-tick.C:
			}
			if err := s.copyConsole(c, m.dir); err != nil {
				s.log.WithError(err).WithField("container", c.id).Warn("reading the console of a machine")
			}
		}
		c.pod.mu.Lock()
		asked := c.pod.stopping || c.killed
		c.pod.mu.Unlock()
		s.reaper.finish(c, func(r *containerRecord) {
			switch why := m.EndReason(); {
			case asked:
				r.ExitCode, r.Reason = exitKilled, reasonError
			case why == "guest-shutdown":
				r.ExitCode, r.Reason = 0, reasonCompleted
			case why == "":
				r.ExitCode, r.Reason, r.Message = exitUnknown, reasonUnknown,
					"the virtual machine ended, it is not known why"
			default:
				r.ExitCode, r.Reason, r.Message = exitUnknown, reasonError, "the virtual machine ended: "+why
			}
		})
		c.life.Lock()
		defer c.life.Unlock()
		warn(s.log, s.reaper.release(c), "tidying up after a container; its removal will try again")
	})
}

// copyConsole hands on what the console has beyond what was handed on.
func (s *watcher) copyConsole(c *container, dir string) error {
	console, err := os.Open(qemu.ConsolePath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer console.Close()
	var offset int64
	if data, err := os.ReadFile(s.offsetFile(c.pod)); err == nil {
		if offset, err = strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err != nil {
			return err
		}
	}
	if _, err := console.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(console, mebibyte))
	if err != nil || len(data) == 0 {
		return err
	}
	if err := c.output.keep(guest.Output{Stream: fdStdout, Data: data}); err != nil {
		return err
	}
	return os.WriteFile(s.offsetFile(c.pod), []byte(strconv.FormatInt(offset+int64(len(data)), 10)), 0o600)
}

// stop presses the power button and ends the machine after the
// grace period.
func (s *diskMachines) stop(ctx context.Context, c *container, grace time.Duration) error {
	m := c.pod.running()
	if m == nil {
		return waitEnded(ctx, c, killTimeout) // on its way
	}
	if grace > 0 {
		if err := m.Powerdown(ctx); err != nil && m.Alive() {
			return fmt.Errorf("pressing the machine's power button: %w", err)
		}
		err := waitEnded(ctx, c, grace)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	c.pod.mu.Lock()
	c.killed = true
	c.pod.mu.Unlock()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	if err := s.machines.end(ending, m.dir, m); err != nil {
		return err
	}
	return waitEnded(ctx, c, killTimeout)
}
