package vm

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/guest"
	"github.com/a4s-io/a4s/embedded/guest/protocol"
)

// statsTimeout is how long a guest may take to say what it uses.
const statsTimeout = 5 * time.Second

// statistics answers what sandboxes and containers use.
type statistics struct {
	layout
	log   *logrus.Entry
	store *store
	rates rates
}

// rates turns times used into rates.
type rates struct {
	mu   sync.Mutex
	last map[string]sample
}

type sample struct {
	at    time.Time
	usage time.Duration
	rate  uint64
}

// rate is the CPU time that id used each second since the last time it was
// asked for, in billionths of a CPU. Short intervals say nothing: then it is
// the last rate.
func (s *rates) rate(id string, at time.Time, usage time.Duration) uint64 {
	const shortest = time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]sample{}
	}
	before, known := s.last[id]
	if since := at.Sub(before.at); known && since < shortest {
		return before.rate
	} else if known && usage >= before.usage {
		before.rate = uint64(float64(usage-before.usage) / float64(since) * float64(time.Second))
	}
	s.last[id] = sample{at: at, usage: usage, rate: before.rate}
	return before.rate
}

func (s *rates) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, id)
}

// usage is what a pod uses: of its guest, if that answers, and of QEMU.
type usage struct {
	at    time.Time
	guest *guest.Stats
}

// usageOf asks the guests of the given pods, all at once.
func (s *statistics) usageOf(ctx context.Context, pods []*sandbox) map[*sandbox]usage {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	all := map[*sandbox]usage{}
	for _, p := range pods {
		m := p.running()
		if m == nil {
			continue
		}
		wait.Go(func() {
			u := usage{at: time.Now()}
			if m.guest != nil {
				st, err := m.guest.Stats(ctx)
				if err != nil {
					s.log.WithError(err).WithField("sandbox", p.id).Debug("asking a guest what it uses")
					return
				}
				u.guest = &st
			} else {
				// All that is known of a system of its own is what its
				// machine takes.
				taken, err := m.Usage()
				if err != nil {
					return
				}
				u.guest = &guest.Stats{}
				u.guest.CPU.Usage = taken.CPU
				u.guest.Memory.Usage, u.guest.Memory.WorkingSet, u.guest.Memory.RSS = taken.Memory,
					taken.Memory, taken.Memory
			}
			mu.Lock()
			defer mu.Unlock()
			all[p] = u
		})
	}
	wait.Wait()
	return all
}

func value(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

func (s *statistics) cpu(id string, at time.Time, c protocol.CPUStats) *runtimeapi.CpuUsage {
	return &runtimeapi.CpuUsage{
		Timestamp: at.UnixNano(), UsageCoreNanoSeconds: value(uint64(c.Usage)),
		UsageNanoCores: value(s.rates.rate(id, at, c.Usage)),
	}
}

func memory(at time.Time, m protocol.MemoryStats) *runtimeapi.MemoryUsage {
	return &runtimeapi.MemoryUsage{
		Timestamp: at.UnixNano(), WorkingSetBytes: value(m.WorkingSet), AvailableBytes: value(m.Available),
		UsageBytes: value(m.Usage),
		RssBytes:   value(m.RSS), PageFaults: value(m.PageFaults), MajorPageFaults: value(m.MajorPageFaults),
	}
}

// containerStats are those of one container; u is what its pod uses.
func (s *statistics) container(c *container, u usage) *runtimeapi.ContainerStats {
	record := c.get()
	st := &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.id, Metadata: record.Config.P.GetMetadata(), Labels: record.Config.P.GetLabels(),
			Annotations: record.Config.P.GetAnnotations(),
		},
		WritableLayer: s.writableLayer(c),
	}
	if u.guest == nil || record.State != stateRunning {
		return st
	}
	if record.Disk {
		st.Cpu, st.Memory = s.cpu(c.id, u.at, u.guest.CPU), memory(u.at, u.guest.Memory)
		return st
	}
	for _, of := range u.guest.Containers {
		if of.ID == c.id {
			st.Cpu, st.Memory = s.cpu(c.id, u.at, of.CPU), memory(u.at, of.Memory)
		}
	}
	return st
}

// writableLayer is what the container's disk takes on the node.
func (s *statistics) writableLayer(c *container) *runtimeapi.FilesystemUsage {
	used, files := diskUsage(s.containerDir(c.id))
	return &runtimeapi.FilesystemUsage{
		Timestamp: time.Now().UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.containersDir()},
		UsedBytes: value(used), InodesUsed: value(files),
	}
}

func diskUsage(dir string) (bytes, files uint64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += uint64(st.Blocks) * 512
			files++
		}
		return nil
	})
	return bytes, files
}

// ContainerStats implements the CRI.
func (s *statistics) ContainerStats(
	ctx context.Context, r *runtimeapi.ContainerStatsRequest,
) (*runtimeapi.ContainerStatsResponse, error) {
	c, err := s.store.container(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	u := s.usageOf(ctx, []*sandbox{c.pod})
	return &runtimeapi.ContainerStatsResponse{Stats: s.container(c, u[c.pod])}, nil
}

// ListContainerStats implements the CRI.
func (s *statistics) ListContainerStats(
	ctx context.Context, r *runtimeapi.ListContainerStatsRequest,
) (*runtimeapi.ListContainerStatsResponse, error) {
	return &runtimeapi.ListContainerStatsResponse{Stats: s.ofContainers(ctx, r.GetFilter())}, nil
}

// StreamContainerStats implements the CRI.
func (s *statistics) StreamContainerStats(
	r *runtimeapi.StreamContainerStatsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse],
) error {
	return inChunks(s.ofContainers(stream.Context(), r.GetFilter()), func(some []*runtimeapi.ContainerStats) error {
		return stream.Send(&runtimeapi.StreamContainerStatsResponse{ContainerStats: some})
	})
}

func (s *statistics) ofContainers(
	ctx context.Context, f *runtimeapi.ContainerStatsFilter,
) []*runtimeapi.ContainerStats {
	match := s.store.matching(f.GetId(), f.GetPodSandboxId(), f.GetLabelSelector())
	pods := map[*sandbox]bool{}
	var ask []*sandbox
	for _, c := range match {
		if !pods[c.pod] {
			pods[c.pod] = true
			ask = append(ask, c.pod)
		}
	}
	u := s.usageOf(ctx, ask)
	var all []*runtimeapi.ContainerStats
	for _, c := range match {
		all = append(all, s.container(c, u[c.pod]))
	}
	return all
}

// PodSandboxStats implements the CRI.
func (s *statistics) PodSandboxStats(
	ctx context.Context, r *runtimeapi.PodSandboxStatsRequest,
) (*runtimeapi.PodSandboxStatsResponse, error) {
	p, err := s.store.sandbox(r.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	u := s.usageOf(ctx, []*sandbox{p})
	return &runtimeapi.PodSandboxStatsResponse{Stats: s.sandbox(p, u[p])}, nil
}

// ListPodSandboxStats implements the CRI.
func (s *statistics) ListPodSandboxStats(
	ctx context.Context, r *runtimeapi.ListPodSandboxStatsRequest,
) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: s.ofSandboxes(ctx, r.GetFilter())}, nil
}

// StreamPodSandboxStats implements the CRI.
func (s *statistics) StreamPodSandboxStats(
	r *runtimeapi.StreamPodSandboxStatsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse],
) error {
	return inChunks(s.ofSandboxes(stream.Context(), r.GetFilter()), func(some []*runtimeapi.PodSandboxStats) error {
		return stream.Send(&runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: some})
	})
}

func (s *statistics) ofSandboxes(
	ctx context.Context, f *runtimeapi.PodSandboxStatsFilter,
) []*runtimeapi.PodSandboxStats {
	only, _ := s.store.sandbox(f.GetId()) // none: nothing matches
	var match []*sandbox
	for _, p := range s.store.allSandboxes() {
		record := p.get()
		if record.Phase != phaseReady || f.GetId() != "" && p != only ||
			!selected(f.GetLabelSelector(), record.Config.P.GetLabels()) {
			continue
		}
		match = append(match, p)
	}
	u := s.usageOf(ctx, match)
	var all []*runtimeapi.PodSandboxStats
	for _, p := range match {
		all = append(all, s.sandbox(p, u[p]))
	}
	return all
}

// sandboxStats are those of the machine and of its containers.
func (s *statistics) sandbox(p *sandbox, u usage) *runtimeapi.PodSandboxStats {
	record := p.get()
	config := record.Config.P
	st := &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{Id: p.id, Metadata: config.GetMetadata(),
			Labels: config.GetLabels(), Annotations: config.GetAnnotations()},
		Linux: &runtimeapi.LinuxPodSandboxStats{},
	}
	for _, c := range s.store.allContainers(p) {
		if c.get().State == stateRunning {
			st.Linux.Containers = append(st.Linux.Containers, s.container(c, u))
		}
	}
	if u.guest == nil {
		return st
	}
	st.Linux.Cpu, st.Linux.Memory = s.cpu(p.id, u.at, u.guest.CPU), memory(u.at, u.guest.Memory)
	st.Linux.Process = &runtimeapi.ProcessUsage{Timestamp: u.at.UnixNano(), ProcessCount: value(u.guest.Pids)}
	network := &runtimeapi.NetworkUsage{Timestamp: u.at.UnixNano()}
	for _, n := range u.guest.Networks {
		nic := &runtimeapi.NetworkInterfaceUsage{
			Name: n.Name, RxBytes: value(n.RxBytes), RxErrors: value(n.RxErrors), TxBytes: value(n.TxBytes),
			TxErrors: value(n.TxErrors),
		}
		if n.Name == nicName {
			network.DefaultInterface = nic
		} else {
			network.Interfaces = append(network.Interfaces, nic)
		}
	}
	st.Linux.Network = network
	return st
}
