package registry

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

type dpc = partitionapi.DataPartitionConfig

func TestValidation(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*dpc)
		want   string // "" for no error
	}{
		"the seed's":                {func(*dpc) {}, ""},
		"no bounds":                 {func(c *dpc) { c.IsRangeEndValid = false }, ""},
		"no group":                  {func(c *dpc) { c.ServiceGroupID = "" }, "serviceGroupId"},
		"a group with a slash":      {func(c *dpc) { c.ServiceGroupID = "a/b" }, "serviceGroupId"},
		"an end without a value":    {func(c *dpc) { c.RangeEnd = "" }, "rangeEnd: Required"},
		"a start after the end":     {func(c *dpc) { ordered(c, "x", "m") }, "must not come before"},
		"nothing":                   {func(c *dpc) { ordered(c, "m", "m") }, ""},
		"a start that is not one":   {func(c *dpc) { c.RangeStart = "z" }, ""},
		"a bound with a slash":      {func(c *dpc) { c.RangeEnd = "a/b" }, "rangeEnd"},
		"a long bound":              {func(c *dpc) { c.RangeEnd = strings.Repeat("a", 64) }, "rangeEnd"},
		"tenants alone":             {func(c *dpc) { ordered(c, "m", "m"); c.Tenants = []string{"a"} }, ""},
		"a tenant twice":            {func(c *dpc) { c.Tenants = []string{"a", "a"} }, "tenants[1]"},
		"the system":                {func(c *dpc) { c.Tenants = []string{"system"} }, "tenants[0]"},
		"a name that no tenant has": {func(c *dpc) { c.Tenants = []string{"A"} }, "tenants[0]"},
		"too many tenants": {func(c *dpc) {
			c.Tenants = make([]string, partitionapi.MaxTenants+1)
		}, "tenants: Too many"},
	} {
		t.Run(what, func(t *testing.T) {
			in := &dpc{
				ObjectMeta: metav1.ObjectMeta{Name: "partition-1"},
				RangeStart: "A", RangeEnd: "m", IsRangeEndValid: true, ServiceGroupID: "1",
			}
			c.change(in)
			err := validate(in).ToAggregate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func ordered(c *dpc, start, end string) {
	c.RangeStart, c.IsRangeStartValid, c.RangeEnd, c.IsRangeEndValid = start, true, end, true
}

func TestGeneration(t *testing.T) {
	was := &partitionapi.DataPartitionConfig{ObjectMeta: metav1.ObjectMeta{Generation: 3}, RangeStart: "a"}
	same, other := was.DeepCopy(), was.DeepCopy()
	same.Labels, other.RangeStart = map[string]string{"a": "b"}, "b"
	for want, c := range map[int64]*partitionapi.DataPartitionConfig{3: same, 4: other} {
		newStrategy().PrepareForUpdate(t.Context(), c, was)
		if c.Generation != want {
			t.Errorf("generation %d, want %d", c.Generation, want)
		}
	}
}

// TestTheKindIsThatOfGroups: this package makes known what it serves, and not the kinds of partitions.
func TestTheKindIsThatOfGroups(t *testing.T) {
	for kind, want := range map[string]bool{"DataPartitionConfig": true, "Partition": false,
		"TenantPlacement": false} {
		if legacyscheme.Scheme.Recognizes(partitionapi.GroupVersion().WithKind(kind)) != want {
			t.Errorf("%s is known: %t", kind, !want)
		}
	}
}
