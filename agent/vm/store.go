package vm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/records"
)

// store holds the pods and containers of the node, in memory and on disk.
type store struct {
	sandboxDir   records.Dir[sandboxRecord]
	containerDir records.Dir[containerRecord]

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	// names are those in use, by sandboxName or containerName.
	names map[string]string
}

func newStore(sandboxDir records.Dir[sandboxRecord], containerDir records.Dir[containerRecord]) *store {
	return &store{
		sandboxDir: sandboxDir, containerDir: containerDir,
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, names: map[string]string{},
	}
}

// Names that must be unique: the kubelet counts attempts up.

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("pod %s/%s (%s), attempt %d", m.GetNamespace(), m.GetName(), m.GetUid(), m.GetAttempt())
}

func containerName(sandboxID string, m *runtimeapi.ContainerMetadata) string {
	return fmt.Sprintf("container %s of %s, attempt %d", m.GetName(), sandboxID, m.GetAttempt())
}

// addSandbox records a new sandbox.
func (s *store) addSandbox(p *sandbox) error {
	s.mu.Lock()
	if owner, taken := s.names[p.name]; taken {
		s.mu.Unlock()
		return status.Errorf(codes.AlreadyExists, "%s is sandbox %s", p.name, owner)
	}
	s.names[p.name] = p.id
	s.sandboxes[p.id] = p
	s.mu.Unlock()
	if err := s.updateSandbox(p, func(*sandboxRecord) {}); err != nil {
		s.forgetSandbox(p)
		return err
	}
	return nil
}

func (s *store) forgetSandbox(p *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, p.name)
	delete(s.sandboxes, p.id)
}

// removeSandbox forgets a sandbox of which nothing is left.
func (s *store) removeSandbox(p *sandbox) error {
	if err := s.sandboxDir.Remove(p.id); err != nil {
		return err
	}
	s.forgetSandbox(p)
	return nil
}

// updateSandbox changes the record of a sandbox on disk, then in memory.
func (s *store) updateSandbox(p *sandbox, change func(*sandboxRecord)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.record
	change(&next)
	if err := s.sandboxDir.Put(next.ID, &next); err != nil {
		return err
	}
	p.record = next
	return nil
}

func (s *store) addContainer(c *container) error {
	s.mu.Lock()
	if owner, taken := s.names[c.name]; taken {
		s.mu.Unlock()
		return status.Errorf(codes.AlreadyExists, "%s is container %s", c.name, owner)
	}
	s.names[c.name] = c.id
	s.containers[c.id] = c
	s.mu.Unlock()
	if err := s.updateContainer(c, func(*containerRecord) {}); err != nil {
		s.forgetContainer(c)
		return err
	}
	return nil
}

func (s *store) forgetContainer(c *container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, c.name)
	delete(s.containers, c.id)
}

func (s *store) removeContainer(c *container) error {
	if err := s.containerDir.Remove(c.id); err != nil {
		return err
	}
	s.forgetContainer(c)
	return nil
}

func (s *store) updateContainer(c *container, change func(*containerRecord)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.record
	change(&next)
	if err := s.containerDir.Put(next.ID, &next); err != nil {
		return err
	}
	c.record = next
	return nil
}

// sandbox finds a sandbox by its id or the unique beginning of one.
func (s *store) sandbox(id string) (*sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return find(s.sandboxes, "sandbox", id)
}

// container finds a container by its id or the unique beginning of one.
func (s *store) container(id string) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return find(s.containers, "container", id)
}

func find[T any](all map[string]*T, kind, id string) (*T, error) {
	if id == "" {
		return nil, status.Errorf(codes.InvalidArgument, "no %s id given", kind)
	}
	if found, ok := all[id]; ok {
		return found, nil
	}
	var match *T
	for full, candidate := range all {
		if !strings.HasPrefix(full, id) {
			continue
		}
		if match != nil {
			return nil, status.Errorf(codes.InvalidArgument, "several %s ids begin with %q", kind, id)
		}
		match = candidate
	}
	if match == nil {
		return nil, status.Errorf(codes.NotFound, "%s %q: not found", kind, id)
	}
	return match, nil
}

// allSandboxes returns them, the oldest first.
func (s *store) allSandboxes() []*sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*sandbox, 0, len(s.sandboxes))
	for _, p := range s.sandboxes {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *sandbox) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.id, b.id))
	})
	return all
}

// allContainers returns those of a sandbox, or with nil all, the oldest first.
func (s *store) allContainers(of *sandbox) []*container {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*container
	for _, c := range s.containers {
		if of == nil || c.pod == of {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *container) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.id, b.id))
	})
	return all
}
