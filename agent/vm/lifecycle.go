package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/crilog"
	"github.com/a4s-io/a4s/agent/vm/guest"
)

const (
	// drainTimeout is how long the output of a container that has ended may
	// take to arrive.
	drainTimeout = 10 * time.Second
	// killTimeout is how long a guest may take to end a container that was
	// killed.
	killTimeout = 30 * time.Second
	// exitNoExecutable is the exit code of what could not be started.
	exitNoExecutable = 128
	reasonStartError = "StartError"
	// Real-time signals of Linux, as the C library numbers them.
	firstRealTime, lastRealTime = 34, 64
)

// reaper records the end of containers, and removes what they leave.
type reaper struct {
	layout
	*tasks
	log    *logrus.Entry
	store  *store
	events *events
}

// StartContainer implements the CRI.
func (s *containers) StartContainer(
	ctx context.Context, r *runtimeapi.StartContainerRequest,
) (*runtimeapi.StartContainerResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	c.life.Lock()
	defer c.life.Unlock()
	record := c.get()
	if record.State != stateCreated {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s is %s, not %s", c.id,
			record.State, stateCreated)
	}
	if record.Disk {
		err = s.disk.start(ctx, c)
	} else {
		err = s.start(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	s.events.send(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, c.pod, c.id)
	return &runtimeapi.StartContainerResponse{}, nil
}

func (s *containers) start(ctx context.Context, c *container) error {
	m := c.pod.running()
	if m == nil || m.guest == nil {
		return status.Errorf(codes.FailedPrecondition, "sandbox %s is not ready", c.pod.id)
	}
	record := c.get()
	log, err := crilog.Open(record.LogPath)
	if err != nil {
		return err
	}
	started, err := m.guest.Start(ctx, c.id)
	if err != nil {
		err = errors.Join(err, log.Close())
		if errors.Is(err, guest.ErrNoExecutable) {
			// As containerd has it: it has ended without ever running.
			s.reaper.finish(c, func(r *containerRecord) {
				r.ExitCode, r.Reason, r.Message = exitNoExecutable, reasonStartError, err.Error()
			})
		}
		return guestError("starting the container", err)
	}
	c.output.open(log)
	if err := s.store.updateContainer(c, func(r *containerRecord) {
		r.State, r.Started, r.User = stateRunning, time.Now(), ids(started.UID, started.GIDs)
	}); err != nil {
		return err
	}
	s.watcher.watch(c, m)
	return nil
}

func ids(uid uint32, gids []uint32) *userIDs {
	u := &userIDs{UID: int64(uid)}
	for i, g := range gids {
		if i == 0 {
			u.GID = int64(g)
		}
		// The primary group is one of them, as the CRI reports it.
		u.Groups = append(u.Groups, int64(g))
	}
	return u
}

// watch writes the log of a running container and records its end.
func (s *watcher) watch(c *container, m *machine) {
	drained := make(chan struct{})
	s.background(func() {
		defer close(drained)
		err := m.guest.Logs(s.ctx, c.id, 0, c.output.keep)
		if err != nil && s.ctx.Err() == nil && m.Alive() {
			s.log.WithError(err).WithField("container", c.id).Warn("reading the output of a container")
		}
	})
	s.background(func() {
		exit, err := m.guest.Wait(s.ctx, c.id)
		if s.ctx.Err() != nil {
			return // the container goes on
		}
		select {
		case <-drained:
		case <-time.After(drainTimeout):
		case <-s.ctx.Done():
			return // what it wrote is still there
		}
		if err != nil {
			s.reaper.lose(c)
		} else {
			s.reaper.finish(c, func(r *containerRecord) {
				r.ExitCode, r.Finished = exit.Code, time.Now()
				switch {
				case exit.OOM:
					r.Reason = reasonOOMKilled
				case exit.Code == 0:
					r.Reason = reasonCompleted
				default:
					r.Reason = reasonError
				}
			})
		}
		// Nothing can run in it any more; its disk and memory are not needed.
		c.life.Lock()
		defer c.life.Unlock()
		s.reaper.warnUnlessStopping(c.pod, s.reaper.release(c),
			"tidying up after a container; its removal will try again")
	})
}

// warnUnlessStopping logs what went wrong, unless the pod is about to go
// anyway, and the machine with all that is in it.
func (s *reaper) warnUnlessStopping(p *sandbox, err error, doing string) {
	p.mu.Lock()
	stopping := p.stopping
	p.mu.Unlock()
	if err != nil && !stopping {
		s.log.WithError(err).WithField("sandbox", p.id).Warn(doing)
	}
}

// lose records the end of a container whose machine is gone.
func (s *reaper) lose(c *container) {
	c.pod.mu.Lock()
	asked := c.pod.stopping
	c.pod.mu.Unlock()
	s.finish(c, func(r *containerRecord) {
		if asked {
			r.ExitCode, r.Reason = exitKilled, reasonError
			return
		}
		r.ExitCode, r.Reason = exitUnknown, reasonUnknown
		r.Message = "the virtual machine of the pod ended"
	})
}

// finish records the end of a container, once.
func (s *reaper) finish(c *container, how func(*containerRecord)) {
	first := false
	err := s.store.updateContainer(c, func(r *containerRecord) {
		first = r.State != stateExited
		if !first {
			return
		}
		r.State, r.Finished = stateExited, time.Now()
		how(r)
	})
	if !first {
		return
	}
	if err != nil {
		// In memory it has ended all the same, and a restart finds that out.
		s.log.WithError(err).WithField("container", c.id).Error("recording the end of a container")
		c.mu.Lock()
		c.record.State, c.record.Finished = stateExited, time.Now()
		how(&c.record)
		c.mu.Unlock()
	}
	if err := c.output.close(); err != nil {
		s.log.WithError(err).WithField("container", c.id).Warn("the log of a container is not complete")
	}
	c.once.Do(func() { close(c.ended) })
	s.events.send(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, c.pod, c.id)
}

// StopContainer implements the CRI.
func (s *containers) StopContainer(
	ctx context.Context, r *runtimeapi.StopContainerRequest,
) (*runtimeapi.StopContainerResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if status.Code(err) == codes.NotFound {
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, s.stop(ctx, c, time.Duration(r.GetTimeout())*time.Second)
}

// stop asks a container to end, and kills it after the grace period.
// It may be called again with a shorter one meanwhile.
func (s *containers) stop(ctx context.Context, c *container, grace time.Duration) error {
	record := c.get()
	if record.State != stateRunning {
		return nil // as containerd has it
	}
	if record.Disk {
		return s.disk.stop(ctx, c, grace)
	}
	m := c.pod.running()
	if m == nil {
		return waitEnded(ctx, c, killTimeout) // on its way
	}
	if grace > 0 {
		signal, err := parseSignal(record.StopSignal)
		if err != nil {
			s.log.WithError(err).WithField("container", c.id).Warn("stopping with SIGTERM")
			signal = unix.SIGTERM
		}
		if err := m.guest.Signal(ctx, c.id, int(signal), false); err != nil && !ended(err) {
			return guestError("stopping the container", err)
		}
		err = waitEnded(ctx, c, grace)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	if err := m.guest.Signal(ctx, c.id, int(unix.SIGKILL), true); err != nil && !ended(err) {
		return guestError("killing the container", err)
	}
	return waitEnded(ctx, c, killTimeout)
}

// ended reports whether a call failed because the container has ended.
func ended(err error) bool {
	return errors.Is(err, guest.ErrState) || errors.Is(err, guest.ErrNotFound) || errors.Is(err, guest.ErrClosed)
}

func waitEnded(ctx context.Context, c *container, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-timer.C:
		return status.Errorf(codes.DeadlineExceeded, "container %s did not end within %s", c.id, limit)
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// parseSignal reads what an image or a container calls a signal.
func parseSignal(name string) (unix.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= lastRealTime {
		return unix.Signal(n), nil
	}
	for _, prefix := range []string{"", "SIG"} {
		if sig := unix.SignalNum(prefix + name); sig != 0 {
			return sig, nil
		}
	}
	// Real-time signals, which have no names elsewhere: RTMIN+3, and as the
	// CRI spells it, RTMINPLUS3.
	plain := strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(strings.TrimPrefix(name, "SIG"))
	for prefix, base := range map[string]int{"RTMIN": firstRealTime, "RTMAX": lastRealTime} {
		offset, ok := strings.CutPrefix(plain, prefix)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(cmp.Or(offset, "0"))
		if sig := base + n; err == nil && sig >= firstRealTime && sig <= lastRealTime {
			return unix.Signal(sig), nil
		}
	}
	return 0, fmt.Errorf("unknown signal %q", name)
}

// ReopenContainerLog implements the CRI.
func (s *containers) ReopenContainerLog(
	_ context.Context, r *runtimeapi.ReopenContainerLogRequest,
) (*runtimeapi.ReopenContainerLogResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.get().State != stateRunning {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s is not running", c.id)
	}
	return &runtimeapi.ReopenContainerLogResponse{}, c.output.reopen()
}
