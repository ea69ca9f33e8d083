package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// settle is how long changes are collected before they are written.
const settle = time.Second

// kept is the content of the file.
type kept struct {
	Partitions []*partitionapi.Partition       `json:"partitions"`
	Placements []*partitionapi.TenantPlacement `json:"placements"`
}

// errDamaged is a file that says nothing. It is as good as none: home has the truth.
var errDamaged = errors.New("the file is damaged")

func (d *Directory) load() error {
	if d.opts.File == "" {
		return nil
	}
	k, err := read(d.opts.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errDamaged):
		d.opts.Log.WithError(err).Warnf("the file %s is damaged; tenants of other partitions are found when the home "+
			"partition can be reached", d.opts.File)
		return nil
	case err != nil:
		return err
	}
	d.recall(k.Partitions)
	d.placements.last = byName(k.Placements)
	return nil
}

func read(path string) (*kept, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading what was known of the partitions: %w", err)
	}
	k := &kept{}
	if err := json.Unmarshal(data, k); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return k, nil
}

// Recorded is a partition as the file of a server knew it last, nil if it does not.
func Recorded(path, name string) (*partitionapi.Partition, error) {
	k, err := read(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, p := range k.Partitions {
		if p != nil && p.Name == name {
			return p, nil
		}
	}
	return nil, nil
}

func byName[T metav1.Object](list []T) map[string]T {
	out := map[string]T{}
	for _, o := range list {
		out[o.GetName()] = o
	}
	return out
}

// save writes the file after changes, until ctx ends.
func (d *Directory) save(ctx context.Context) {
	if d.opts.File == "" {
		return
	}
	for {
		select {
		case <-d.dirty:
		case <-ctx.Done():
			return
		}
		if component.Sleep(ctx, settle) != nil && !d.Synced() {
			return
		}
		if !d.Synced() {
			continue // half a list is worse than the last whole one; the other half tells, too
		}
		if err := d.write(); err != nil {
			d.opts.Log.WithError(err).Warn("what is known of the partitions could not be written")
		}
	}
}

func (d *Directory) write() error {
	k := kept{Partitions: d.Partitions()}
	for _, p := range d.Placements() {
		if d.opts.Self == partitionapi.Home {
			break // they are in its datastore
		}
		k.Placements = append(k.Placements, &partitionapi.TenantPlacement{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID},
			Spec:       partitionapi.TenantPlacementSpec{Partition: p.Spec.Partition},
			Status:     p.Status,
		})
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Update(d.opts.File, data, 0o600)
}
