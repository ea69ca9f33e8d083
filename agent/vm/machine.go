package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/agent/vm/network"
	"github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/agent/vm/shares"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

const (
	// guestSocket is the host's end of the guest's port, in the machine's
	// directory.
	guestSocket = "guest.sock"
	// nicName is the pod's interface in the guest.
	nicName = network.Interface
	// outsideParent, or outsideSlice, is the control group of machines that
	// would not fit into their pods' ones.
	outsideParent = "/a4s-vm"
	outsideSlice  = "a4svm.slice"
	// bootTimeout is how long a guest may take to answer. Emulation is slow,
	// and many may boot at once; the kubelet gives up earlier.
	bootTimeout = 110 * time.Second
	// destroyTimeout bounds the end of a machine, which goes on even if who
	// asked for it has gone.
	destroyTimeout = 60 * time.Second
	// quitTimeout is how long QEMU may take to write its disks and end.
	quitTimeout = 10 * time.Second
)

// machines starts virtual machines, finds them again, and ends them.
type machines struct {
	layout
	*tasks
	settings settings.Service
	log      *logrus.Entry
	network  *network.Manager
	// choice is how machines run here, choiceErr why they cannot.
	choice    qemu.Choice
	choiceErr error
}

// machine is the virtual machine of a pod while it runs.
type machine struct {
	*qemu.Machine
	dir string
	// share serves the volumes; nil if it has none.
	share *shares.Server
	// exec runs commands in the guest. guest is the same if the machine runs
	// the embedded guest, and nil if it boots a disk.
	exec  guest.Executor
	guest *guest.Client
}

// close lets go of the machine, which goes on.
func (m *machine) close() error {
	errs := []error{m.exec.Close(), m.Machine.Close()}
	if m.share != nil {
		errs = append(errs, m.share.Close())
	}
	return errors.Join(errs...)
}

// score has the kernel, when memory is short, end the machine as soon as it would
// end what runs in it: the kubelet says so for each container, and means the one
// that is to stay longest.
func (m *machine) score(of []*container) error {
	score, said := 0, false
	for _, c := range of {
		if r := c.get().Config.P.GetLinux().GetResources(); r != nil && (!said || int(r.GetOomScoreAdj()) < score) {
			score, said = int(r.GetOomScoreAdj()), true
		}
	}
	err := m.SetOOMScore(score)
	if m.share != nil { // the machine ends with it
		err = errors.Join(err, m.share.SetOOMScore(score))
	}
	return err
}

// shareEnded is closed when the machine's volumes are gone.
func (m *machine) shareEnded() <-chan struct{} {
	if m.share == nil {
		return nil
	}
	return m.share.Done()
}

// handle makes a machine of its parts.
func handle(q *qemu.Machine, dir string, share *shares.Server) *machine {
	m := &machine{Machine: q, dir: dir, share: share}
	if share == nil {
		m.exec = guest.NewAgent(dialer(dir, agentSocket))
		return m
	}
	m.guest = guest.New(dialer(dir, guestSocket))
	m.exec = m.guest
	return m
}

func dialer(dir, socket string) guest.Dialer {
	return func(ctx context.Context) (net.Conn, error) { return qemu.DialPort(ctx, dir, socket) }
}

// cgroup is where the processes of a pod's machine belong; nil if the pod has
// no control group.
func (s *machines) cgroup(r *sandboxRecord) (*process.Cgroup, error) {
	if !exceedsPod(r.Config.P.GetLinux(), r.Size.MemoryMB, s.choice.Accelerator) {
		return cgroupOf(r, false, 0)
	}
	// What QEMU takes besides is an estimate, by which no machine may end.
	most := r.Size.MemoryMB + 2*besides(r.Size.MemoryMB, s.choice.Accelerator)
	return cgroupOf(r, true, int64(most)*mebibyte)
}

// cgroupOf is the control group of a machine in that of its pod, or outside with a
// limit of memory of its own.
func cgroupOf(r *sandboxRecord, outside bool, memory int64) (*process.Cgroup, error) {
	linux := r.Config.P.GetLinux()
	parent := linux.GetCgroupParent()
	if parent == "" {
		return nil, nil
	}
	// The kubelet names a slice if systemd manages control groups.
	systemd := strings.HasSuffix(parent, ".slice")
	if !outside {
		return process.NewCgroup(parent, r.ID, systemd, process.Limits{})
	}
	// The pod's memory limit is that of its containers, which QEMU would
	// exceed. What they may use of the CPUs holds for it, too.
	parent = outsideParent
	if systemd {
		parent = outsideSlice
	}
	quota, period := cpuQuota(linux)
	return process.NewCgroup(parent, r.ID, systemd, process.Limits{CPUQuota: quota, CPUPeriod: period, Memory: memory})
}

// boot starts the machine of a pod with the embedded guest, and returns when
// that is set up.
func (s *machines) boot(ctx context.Context, r *sandboxRecord, att *network.Attachment) (_ *machine, err error) {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	group, err := s.cgroup(r)
	if err != nil {
		return nil, err
	}
	dir := s.podDir(r.ID)
	share, err := shares.Start(ctx, s.settings.Virtiofsd, dir, group)
	if err != nil {
		return nil, fmt.Errorf("starting the share of the pod's volumes: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, share.Kill(), share.Close())
		}
	}()
	c := s.config(r)
	c.Kernel, c.Initrd, c.Cmdline = s.settings.Kernel, s.settings.Initrd, guest.CommandLine
	c.Shares = []qemu.Share{{Tag: protocol.SharedTag, Socket: filepath.Join(dir, shares.Socket)}}
	c.Ports = []qemu.Port{{Name: protocol.PortName, Socket: guestSocket}}
	q, err := s.start(ctx, c, r.ID, att, group)
	if err != nil {
		return nil, err
	}
	m := handle(q, dir, share)
	defer func() {
		if err != nil {
			err = errors.Join(err, q.Kill(), m.exec.Close(), q.Close())
		}
	}()
	// A guest that dies is not waited for.
	booting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-q.Done():
			stop(errors.New("the machine ended"))
		case <-booting.Done():
		}
	}()
	if _, err := m.guest.Ready(booting); err != nil {
		return nil, fmt.Errorf("the guest does not answer: %w%s",
			errors.Join(err, context.Cause(booting)), consoleEnd(dir))
	}
	if err := m.guest.Setup(booting, guestPod(r, att)); err != nil {
		return nil, fmt.Errorf("setting up the guest: %w%s", errors.Join(err, context.Cause(booting)), consoleEnd(dir))
	}
	return m, nil
}

// config is what all machines have in common.
func (s *machines) config(r *sandboxRecord) qemu.Config {
	meta := r.Config.P.GetMetadata()
	return qemu.Config{
		Binary: s.settings.QEMU, Dir: s.podDir(r.ID), Name: "a4s-" + meta.GetNamespace() + "-" + meta.GetName(),
		Accelerator: s.choice.Accelerator, MemoryMB: r.Size.MemoryMB, CPUs: r.Size.CPUs,
	}
}

// start starts a machine on the pod's network.
func (s *machines) start(
	ctx context.Context, c qemu.Config, id string, att *network.Attachment, group *process.Cgroup,
) (*qemu.Machine, error) {
	tap, err := s.network.Tap(id)
	if err != nil {
		return nil, fmt.Errorf("connecting the machine to the pod's network: %w", err)
	}
	defer tap.Close()
	c.NICs = []qemu.NIC{{MAC: att.MAC, MTU: att.MTU, Tap: tap}}
	m, err := qemu.Start(ctx, c, group)
	if err != nil {
		return nil, fmt.Errorf("starting the machine: %w", err)
	}
	return m, nil
}

// guestPod is what the guest learns of the pod.
func guestPod(r *sandboxRecord, att *network.Attachment) guest.Sandbox {
	config := r.Config.P
	nic := guest.Interface{MAC: att.MAC, Name: nicName, MTU: att.MTU}
	for _, a := range att.Addresses {
		nic.Addresses = append(nic.Addresses, a.String())
	}
	pod := guest.Sandbox{
		Hostname:   config.GetHostname(),
		Interfaces: []guest.Interface{nic},
		DNS: guest.DNS{
			Servers: config.GetDnsConfig().GetServers(), Searches: config.GetDnsConfig().GetSearches(),
			Options: config.GetDnsConfig().GetOptions(),
		},
		Sysctls:               config.GetLinux().GetSysctls(),
		Time:                  time.Now(),
		Shared:                true,
		ShareProcessNamespace: sharesProcesses(config),
	}
	for _, route := range att.Routes {
		to := guest.Route{Destination: route.Destination.String(), Interface: nicName}
		if route.Gateway.IsValid() {
			to.Gateway = route.Gateway.String()
		}
		pod.Routes = append(pod.Routes, to)
	}
	return pod
}

// consoleEnd is the end of what the machine wrote, for an error message.
func consoleEnd(dir string) string {
	var text strings.Builder
	for _, path := range []string{qemu.LogPath(dir), qemu.ConsolePath(dir)} {
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			continue
		}
		const most = 600
		fmt.Fprintf(&text, "; end of %s: %s", filepath.Base(path),
			strings.TrimSpace(string(data[max(0, len(data)-most):])))
	}
	return text.String()
}

// destroy removes all that there is of a sandbox on this machine, but for what
// its containers keep. m is its machine if this process has it. It may be
// repeated.
func (s *machines) destroy(r *sandboxRecord, m *machine) error {
	// Whoever asked may have gone; half a machine helps nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), destroyTimeout)
	defer cancel()
	dir := s.podDir(r.ID)
	errs := []error{s.end(ctx, dir, m)}
	if share, err := shares.Attach(dir); err == nil {
		errs = append(errs, share.Stop(ctx, time.Second), share.Close())
	} else if !errors.Is(err, process.ErrGone) {
		errs = append(errs, err)
	}
	errs = append(errs, killIn(dir), shares.Close(dir), s.network.Teardown(ctx, r.ID))
	// Where it was may have been decided by another release, or for another
	// accelerator.
	for _, outside := range []bool{false, true} {
		if group, err := cgroupOf(r, outside, 0); err != nil {
			errs = append(errs, err)
		} else if group != nil {
			errs = append(errs, group.Remove())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return removeFiles(dir)
}

// end ends QEMU with its disks written, or the hard way.
func (s *machines) end(ctx context.Context, dir string, m *machine) error {
	var q *qemu.Machine
	if m != nil {
		q = m.Machine // it has one control connection, which is taken
	} else {
		attached, err := qemu.Attach(ctx, dir)
		if errors.Is(err, qemu.ErrGone) {
			return nil
		}
		if err != nil {
			return killByFile(qemu.PIDFile(dir))
		}
		defer attached.Close()
		q = attached
	}
	if !q.Alive() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quitTimeout)
	defer cancel()
	err := q.Quit(ctx)
	if err != nil && q.Alive() {
		s.log.WithError(err).WithField("machine", dir).Warn("killing a machine that does not end")
		err = q.Kill()
	}
	if !q.Alive() {
		return nil
	}
	return err
}

// killIn ends what was started in dir and has no pid file yet: the service was
// killed in between.
func killIn(dir string) error {
	strays, err := process.In(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range strays {
		errs = append(errs, p.Kill(), p.Close())
	}
	return errors.Join(errs...)
}

func killByFile(path string) error {
	p, err := process.Open(path)
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Close())
}

// removeFiles removes a directory of files. It does not descend: what is
// mounted there is not ours to delete.
func removeFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}
