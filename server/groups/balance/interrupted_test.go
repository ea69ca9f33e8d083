package balance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

var errKilled = errors.New("the process was ended")

// kept keeps configurations as the API does. After some writes it ends its client.
type kept struct {
	configs  []partitionapi.DataPartitionConfig
	revision int
	writes   int // that are left, -1 for any number
}

func keep(configs []partitionapi.DataPartitionConfig) *kept {
	k := &kept{writes: -1}
	for i := range configs {
		k.revision++
		c := configs[i].DeepCopy()
		c.ResourceVersion = fmt.Sprint(k.revision)
		k.configs = append(k.configs, *c)
	}
	return k
}

func (k *kept) List(context.Context, metav1.ListOptions) (*partitionapi.DataPartitionConfigList, error) {
	list := partitionapi.DataPartitionConfigList{Items: k.configs}
	return list.DeepCopy(), nil
}

func (k *kept) Update(_ context.Context, c *partitionapi.DataPartitionConfig, _ metav1.UpdateOptions) (
	*partitionapi.DataPartitionConfig, error,
) {
	if k.writes == 0 {
		return nil, errKilled
	}
	k.writes--
	for i := range k.configs {
		if k.configs[i].Name != c.Name {
			continue
		}
		if k.configs[i].ResourceVersion != c.ResourceVersion {
			return nil, fmt.Errorf("%s is of %s, not of %s", c.Name, k.configs[i].ResourceVersion, c.ResourceVersion)
		}
		k.revision++
		k.configs[i] = *c.DeepCopy()
		k.configs[i].ResourceVersion = fmt.Sprint(k.revision)
		return k.configs[i].DeepCopy(), nil
	}
	return nil, errors.New("it is gone")
}

// state is what is kept.
func (k *kept) state(loads Loads) *State {
	list, _ := k.List(context.Background(), metav1.ListOptions{})
	return &State{Configs: list.Items, Loads: loads}
}

func (k *kept) text() string {
	var out []string
	for i := range k.configs {
		c := &k.configs[i]
		out = append(out, fmt.Sprintf("%s=[%s,%s)%v%s", c.ServiceGroupID, c.RangeStart, c.RangeEnd, c.Tenants,
			c.Annotations[drainedAnnotation]))
	}
	return strings.Join(out, " ")
}

// drainedConfig is the configuration of a group that had this.
func drainedConfig(group, had string) partitionapi.DataPartitionConfig {
	c := config(group, nobody, nobody)
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, drainedAnnotation, had)
	return c
}

// moves are of each kind that there is.
var moves = map[string]struct {
	configs []partitionapi.DataPartitionConfig
	propose func(configs []partitionapi.DataPartitionConfig) (*Proposal, error)
}{
	"to the right": {
		[]partitionapi.DataPartitionConfig{config("0", "", "m"), config("1", "m", "")},
		func(c []partitionapi.DataPartitionConfig) (*Proposal, error) {
			return Suggest(c, objectsOf{"a": 10, "b": 10, "c": 10, "z": 10}.loads(), all), nil
		},
	},
	"to the left": {
		[]partitionapi.DataPartitionConfig{config("0", "", "m"), config("1", "m", "", "hot")},
		func(c []partitionapi.DataPartitionConfig) (*Proposal, error) {
			return Suggest(c, objectsOf{"a": 10, "n": 10, "o": 10, "z": 10}.loads(), all), nil
		},
	},
	"drain": {
		[]partitionapi.DataPartitionConfig{config("0", "", "m", "own"), config("1", "m", "", "hot", "warm")},
		func(c []partitionapi.DataPartitionConfig) (*Proposal, error) { return Drain(c, Loads{}, "1") },
	},
	"drain the first": {
		[]partitionapi.DataPartitionConfig{config("0", "", "m"), config("1", "m", "", "hot")},
		func(c []partitionapi.DataPartitionConfig) (*Proposal, error) { return Drain(c, Loads{}, "0") },
	},
	"undo": {
		[]partitionapi.DataPartitionConfig{config("0", "", "", "own", "hot", "warm"), drainedConfig("1",
			`{"to":"0","rangeStart":"m","tenants":["hot","warm"]}`)},
		func(c []partitionapi.DataPartitionConfig) (*Proposal, error) { return Undrain(c, Loads{}, "1") },
	},
}

// TestInterrupted ends each kind of move after each of its writes, also when it is gone on
// with, until nothing is left: the configurations are those of one that was not interrupted.
func TestInterrupted(t *testing.T) {
	for name, m := range moves {
		t.Run(name, func(t *testing.T) {
			whole := keep(m.configs)
			p, err := m.propose(whole.state(nil).Configs)
			if err != nil {
				t.Fatal(err)
			}
			if err := (&Store{Configs: whole}).Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if left := Interrupted(whole.configs); left != nil {
				t.Errorf("all was stored, and left is %s", text(left))
			}
			for writes := 1; writes < len(p.Configs); writes++ {
				k := keep(m.configs)
				s := &Store{Configs: k}
				p, err := m.propose(k.state(nil).Configs)
				if err != nil {
					t.Fatal(err)
				}
				for k.writes = writes; ; k.writes = 1 {
					if err = s.Apply(t.Context(), p); err == nil {
						break
					}
					if !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
					from, to := p.From, p.To
					if p = k.state(nil).Suggest(); p == nil || !p.Interrupted || p.From != from || p.To != to {
						t.Fatalf("after %d writes, what is left is %s", writes, text(p))
					}
				}
				if k.text() != whole.text() {
					t.Errorf("after %d writes it became %s, want %s", writes, k.text(), whole.text())
				}
				if left := Interrupted(k.configs); left != nil {
					t.Errorf("after %d writes it was gone on with, and left is %s", writes, text(left))
				}
			}
		})
	}
}

// TestInterruptedAndChanged: what a person writes since then counts.
func TestInterruptedAndChanged(t *testing.T) {
	for name, m := range moves {
		for writes := 1; writes < 3; writes++ {
			for i := range m.configs {
				k := keep(m.configs)
				p, err := m.propose(k.state(nil).Configs)
				if err != nil || writes >= len(p.Configs) {
					continue
				}
				k.writes = writes
				if err := (&Store{Configs: k}).Apply(t.Context(), p); !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				k.writes = 1
				c := k.configs[i].DeepCopy()
				c.RangeStart, c.IsRangeStartValid, c.RangeEnd, c.IsRangeEndValid = "k", true, "l", true
				if _, err := k.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				if left := Interrupted(k.configs); left != nil {
					t.Errorf("%s: after %d writes and a change of %s, left is %s", name, writes, c.Name, text(left))
				}
			}
		}
	}
}

// TestAutomatic: a change is left alone for ten minutes, and what was interrupted is gone
// on with after one.
func TestAutomatic(t *testing.T) {
	loads := objectsOf{"a": 10, "b": 10, "c": 10, "z": 10}.loads()
	for _, writes := range []int{-1, 1} {
		k := keep(moves["to the right"].configs)
		log, lines := logtest.NewNullLogger()
		said := func(what string) bool {
			return slices.ContainsFunc(lines.AllEntries(), func(e *logrus.Entry) bool {
				return strings.Contains(e.Message, what)
			})
		}
		a := automatic{log: logrus.NewEntry(log), apply: (&Store{Configs: k}).Apply,
			read: func(context.Context) (*State, error) {
				s := k.state(loads)
				s.Servers = twoServers
				return s, nil
			}}
		now, looks, changed := time.Unix(0, 0), 0, k.text()
		look := func() error { looks++; now = now.Add(lookEvery); return a.look(t.Context(), now) }
		for k.text() == changed {
			k.writes = writes
			if err := look(); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if looks == 5 { // a person sets what is there
				c := k.configs[0].DeepCopy()
				k.writes = 1
				c.RangeEnd = "m"
				if _, err := k.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if looks > 100 {
				t.Fatal("nothing is moved")
			}
		}
		if looks != 6+int(restFor/lookEvery) || !said("left alone") {
			t.Errorf("the first move is at look %d, and the log is %v", looks, lines.AllEntries())
		}
		if writes < 0 {
			continue
		}
		k.writes = -1
		for range 2 { // one learns of it, the next goes on
			if len(overlaps(k.configs)) == 0 {
				t.Error("it was gone on with at once")
			}
			if err := look(); err != nil {
				t.Fatal(err)
			}
		}
		if len(overlaps(k.configs)) > 0 || !said("was interrupted; it is taken up again") {
			t.Errorf("it is not gone on with: %s, %v", k.text(), lines.AllEntries())
		}
	}
}

// TestAutomaticTellsOfOverlaps once, and again after a change.
func TestAutomaticTellsOfOverlaps(t *testing.T) {
	k := keep([]partitionapi.DataPartitionConfig{config("0", "", "n"), config("1", "m", "")})
	log, lines := logtest.NewNullLogger()
	a := automatic{log: logrus.NewEntry(log),
		read: func(context.Context) (*State, error) { return k.state(Loads{}), nil }}
	for i := range 4 {
		if i == 2 {
			k.configs[0].ResourceVersion = "9"
		}
		if err := a.look(t.Context(), time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(lines.AllEntries()); n != 2 || !strings.Contains(lines.LastEntry().Message, "overlap") {
		t.Errorf("%d lines: %v", n, lines.AllEntries())
	}
}
