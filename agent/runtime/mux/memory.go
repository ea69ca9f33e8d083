package mux

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

// objectKind is the kind of what runtimes have.
type objectKind int

const (
	sandboxes objectKind = iota
	containers
)

// memory is what a secondary runtime said to have when it was last asked for
// everything. It answers for the runtime while that is unreachable.
type memory struct {
	file string // survives a restart of a4s, unless it is empty

	mu     sync.Mutex
	lists  [2][]byte              // answers as they came, by kind
	sums   [2]uint64              // of ids and states: a new one is worth writing
	gone   [2]map[string]struct{} // removed since
	failed bool                   // the last write did
}

// record is the content of the file.
type record struct {
	Sandboxes  []byte `json:"sandboxes"`
	Containers []byte `json:"containers"`
}

// restore reads what was kept before a restart.
func (m *memory) restore() error {
	if m.file == "" {
		return nil
	}
	data, err := os.ReadFile(m.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return fmt.Errorf("what a runtime ran: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists = [2][]byte{r.Sandboxes, r.Containers}
	for t, list := range m.lists {
		m.sums[t] = sum(objectKind(t), list)
	}
	return nil
}

// keep takes in the answer to an unfiltered list.
func (m *memory) keep(t objectKind, list []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if list == nil {
		list = []byte{} // nothing is something to remember
	}
	was := m.sums[t]
	m.lists[t], m.sums[t] = list, sum(t, list)
	m.gone[t] = nil
	if m.file == "" || m.sums[t] == was && !m.failed {
		return nil
	}
	return m.write()
}

func (m *memory) write() (err error) {
	first := !m.failed
	defer func() {
		m.failed = err != nil
		if !first {
			err = nil // it has been said
		}
	}()
	data, err := json.Marshal(record{Sandboxes: m.lists[sandboxes], Containers: m.lists[containers]})
	if err != nil {
		return fmt.Errorf("keeping what a runtime runs: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o700); err != nil {
		return fmt.Errorf("keeping what a runtime runs: %w", err)
	}
	return atomicfile.Write(m.file, data, 0o600)
}

// forget drops what was removed since.
func (m *memory) forget(t objectKind, id []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lists[t]) == 0 {
		return
	}
	if m.gone[t] == nil {
		m.gone[t] = map[string]struct{}{}
	}
	m.gone[t][string(id)] = struct{}{}
}

// drop removes the file of a runtime that is not registered any more.
func (m *memory) drop() error {
	if m.file == "" {
		return nil
	}
	if err := os.Remove(m.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting what a runtime ran: %w", err)
	}
	return nil
}

// has reports whether the runtime had it.
func (m *memory) has(t objectKind, wanted []byte) bool {
	found := false
	m.each(t, func(item []byte) { found = found || string(id(item)) == string(wanted) })
	return found
}

// count says how many the runtime had.
func (m *memory) count(t objectKind) int {
	n := 0
	m.each(t, func([]byte) { n++ })
	return n
}

func (m *memory) each(t objectKind, f func(item []byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	eachItem(m.lists[t], func(item []byte) {
		if _, gone := m.gone[t][string(id(item))]; !gone {
			f(item)
		}
	})
}

// recall answers a list in place of the runtime.
func (m *memory) recall(t objectKind, request []byte) ([]byte, error) {
	matches, err := filter(t, request)
	if err != nil {
		return nil, err
	}
	var list []byte
	m.each(t, func(item []byte) {
		if matches(item) {
			list = appendItem(list, item)
		}
	})
	return list, nil
}

// filter returns what a list asks for, by the rules of the CRI.
func filter(t objectKind, request []byte) (func(item []byte) bool, error) {
	if t == sandboxes {
		var r runtimeapi.ListPodSandboxRequest
		if err := unmarshal(request, &r); err != nil {
			return nil, err
		}
		f := r.GetFilter()
		return func(item []byte) bool {
			var s runtimeapi.PodSandbox
			return unmarshal(item, &s) == nil &&
				(f.GetId() == "" || f.GetId() == s.Id) &&
				(f.GetState() == nil || f.GetState().State == s.State) &&
				contains(s.Labels, f.GetLabelSelector())
		}, nil
	}
	var r runtimeapi.ListContainersRequest
	if err := unmarshal(request, &r); err != nil {
		return nil, err
	}
	f := r.GetFilter()
	return func(item []byte) bool {
		var c runtimeapi.Container
		return unmarshal(item, &c) == nil &&
			(f.GetId() == "" || f.GetId() == c.Id) &&
			(f.GetPodSandboxId() == "" || f.GetPodSandboxId() == c.PodSandboxId) &&
			(f.GetState() == nil || f.GetState().State == c.State) &&
			contains(c.Labels, f.GetLabelSelector())
	}, nil
}

func contains(labels, wanted map[string]string) bool {
	for k, want := range wanted {
		if v, ok := labels[k]; !ok || v != want {
			return false
		}
	}
	return true
}

// everything reports whether the request of a list has no filter.
func everything(request []byte) bool { return len(field(request, 1)) == 0 }

// sum is the same for lists with the same ids and states, in any order.
func sum(t objectKind, list []byte) uint64 {
	state := protowire.Number(3)
	if t == containers {
		state = 6
	}
	total := uint64(1) // an empty list differs from none
	eachItem(list, func(item []byte) {
		h := fnv.New64a()
		_, _ = h.Write(id(item)) // never fails
		_, _ = h.Write([]byte{0, byte(number(item, state))})
		total += h.Sum64()
	})
	return total
}
