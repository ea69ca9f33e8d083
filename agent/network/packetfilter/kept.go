package packetfilter

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

// keepEvery is how often the policies of several partitions are written if they changed.
const keepEvery = 5 * time.Second

// kept is what a partition told of policies, on disk: while it is down the pods of it on this
// node stay under them, also after a restart.
type kept struct {
	Off   bool             `json:"off,omitempty"`
	Lines []netpolicy.Line `json:"lines,omitempty"`
}

// lines are what a server would tell for the same knowledge.
func (k *knowledge) lines() []netpolicy.Line {
	var out []netpolicy.Line
	for _, id := range slices.Sorted(maps.Keys(k.sets)) {
		s := &netpolicy.Set{ID: id, Endpoints: k.sets[id].endpoints}
		for m := range k.sets[id].members {
			s.Add = append(s.Add, m)
		}
		out = append(out, netpolicy.Line{Set: s})
	}
	for _, id := range slices.Sorted(maps.Keys(k.policies)) {
		out = append(out, netpolicy.Line{Policy: k.policies[id]})
	}
	for _, key := range slices.Sorted(maps.Keys(k.pods)) {
		out = append(out, netpolicy.Line{Pod: k.pods[key]})
	}
	return out
}

func (f *followers) file(name string) string { return filepath.Join(f.dir, name+".json") }

// recall is what a partition told before this process, nil if that is not known.
func (f *followers) recall(name string) *knowledge {
	if f.dir == "" {
		return nil
	}
	data, err := os.ReadFile(f.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		f.log.WithError(err).Warnf("the network policies of partition %s that were known last cannot be read", name)
		return nil
	}
	known := newKnowledge().with(k.Lines)
	known.off = k.Off
	return known
}

// keep writes what partitions told until ctx ends. Where there is one, the rules of the
// process before stay until it tells, and nothing is written.
func (f *followers) keep(ctx context.Context) {
	if f.dir == "" {
		return
	}
	written := map[string]*knowledge{}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.write(written)
		case <-ctx.Done():
			f.write(written)
			return
		}
	}
}

// write writes what is not in written, and removes what is of partitions that have left.
func (f *followers) write(written map[string]*knowledge) {
	all := f.sorted()
	here := map[string]bool{}
	for _, one := range all {
		name := one.server.Name
		here[name] = true
		known, _ := one.policies()
		if len(all) < 2 || known == nil || known == written[name] {
			continue
		}
		data, err := json.Marshal(kept{Off: known.off, Lines: known.lines()})
		if err == nil {
			err = errors.Join(os.MkdirAll(f.dir, 0o700), atomicfile.Update(f.file(name), data, 0o600))
		}
		if err != nil {
			f.log.WithError(err).Warnf("the network policies of partition %s cannot be kept", name)
			continue
		}
		written[name] = known
	}
	files, err := filepath.Glob(f.file("*"))
	if err != nil || len(all) == 0 {
		return
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name = name[:len(name)-len(".json")]; here[name] && len(all) > 1 {
			continue
		}
		if err := os.Remove(file); err != nil {
			f.log.WithError(err).Warn("what a partition told of network policies that has left is still there")
		}
		delete(written, name)
	}
}
