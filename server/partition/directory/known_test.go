package directory

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// TestPartitionsGoByTheRecord: what is known after a list of home depends on what was known
// before, and on what home removed.
func TestPartitionsGoByTheRecord(t *testing.T) {
	one := func(text string) *partitionapi.Partition { // name or name/identity
		name, identity, _ := strings.Cut(text, "/")
		return &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: partitionapi.PartitionSpec{Identity: identity}}
	}
	list := func(texts, removed string) []*partitionapi.Partition {
		var out []*partitionapi.Partition
		for _, text := range strings.Fields(texts) {
			p := one(text)
			if p.Name == partitionapi.Home {
				for _, r := range strings.Fields(removed) {
					name, identity, _ := strings.Cut(r, "/")
					p.Spec.Remove(partitionapi.RemovedPartition{Name: name, Identity: identity})
				}
			}
			out = append(out, p)
		}
		return out
	}
	show := func(list []*partitionapi.Partition) string {
		var out []string
		for _, p := range list {
			out = append(out, p.Name+"/"+p.Spec.Identity)
		}
		return strings.Join(out, " ")
	}
	for what, c := range map[string]struct{ before, list, removed, all, forgotten string }{
		"nothing happened":              {"main/h tp2/a", "main/h tp2/a", "", "main/h tp2/a", ""},
		"one joined":                    {"main/h", "main/h tp2/a", "", "main/h tp2/a", ""},
		"one was removed":               {"main/h tp2/a", "main/h", "tp2/a", "main/h", ""},
		"one is being removed":          {"main/h tp2/a", "main/h tp2/a", "tp2/a", "main/h", ""},
		"home forgot one":               {"main/h tp2/a", "main/h", "", "main/h tp2/a", "tp2/a"},
		"home forgot all":               {"main/h tp2/a", "", "", "main/h tp2/a", "tp2/a"},
		"home forgot itself":            {"main/h tp2/a", "main/i tp2/a", "", "main/i tp2/a", ""},
		"a new one of a name":           {"main/h tp2/a", "main/h tp2/b", "tp2/a", "main/h tp2/b", ""},
		"another one of a name":         {"main/h tp2/a", "main/h tp2/b", "", "main/h tp2/a", "tp2/a"},
		"the name of a removed one":     {"main/h tp2/b", "main/h", "tp2/a", "main/h tp2/b", "tp2/b"},
		"removed, and then another one": {"main/h", "main/h tp2/b", "tp2/a", "main/h tp2/b", ""},
	} {
		k := (&known{}).next(list(c.before, "")).next(list(c.list, c.removed))
		got := fmt.Sprintf("%s; %s", show(k.all), show(k.forgotten))
		if want := c.all + "; " + c.forgotten; got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
}
