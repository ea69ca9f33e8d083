package crd

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestSeedGetMatchingCRD is the pseudo-code of the multi-tenancy seed, for every
// combination of a forced CRD, one whose range has the tenant, a local
// one, and the policies.
func TestSeedGetMatchingCRD(t *testing.T) {
	// The seed's code, written as it stands there.
	seed := func(policy tenantapi.CRDPolicy, c Candidates) Source {
		if c.Forced {
			return System
		}
		switch policy {
		case tenantapi.NeverUseSystemCRDUnlessForced:
			if c.Local {
				return Local
			}
			return Nobody
		case tenantapi.SystemCRDFirst:
			if c.Applicable {
				return System
			}
			if c.Local {
				return Local
			}
			return Nobody
		default: // LocalCRDFirst
			if c.Local {
				return Local
			}
			if c.Applicable {
				return System
			}
			return Nobody
		}
	}
	for _, policy := range append(tenantapi.CRDPolicies(), "") {
		for bits := range 8 {
			c := Candidates{Local: bits&1 != 0, Applicable: bits&2 != 0, Forced: bits&4 != 0}
			t.Run(fmt.Sprintf("%s/%+v", policy, c), func(t *testing.T) {
				if got, want := Match(policy, c), seed(policy, c); got != want {
					t.Errorf("got %d, want %d", got, want)
				}
			})
		}
	}
}

func TestSharingSaysWhoIsServed(t *testing.T) {
	gold := map[string]string{"tier": "gold"}
	for _, c := range []struct {
		name                string
		annotations, labels map[string]string
		covers              map[string]bool // t1 is gold, t2 is not
		err                 string
	}{
		{name: "private", covers: map[string]bool{"t1": false, "t2": false}},
		{name: "forced by annotation", annotations: map[string]string{SharingPolicy: Forced},
			covers: map[string]bool{"t1": true, "t2": true}},
		{name: "forced by label", labels: map[string]string{SharingPolicy: Forced},
			covers: map[string]bool{"t1": true, "t2": true}},
		{name: "forced has no range", annotations: map[string]string{SharingPolicy: Forced, RangeNames: "t1"},
			covers: map[string]bool{"t1": true, "t2": true}},
		{name: "optional for all", annotations: map[string]string{SharingPolicy: Optional},
			covers: map[string]bool{"t1": true, "t2": true}},
		{name: "by name", annotations: map[string]string{SharingPolicy: Optional, RangeNames: "t3, t2"},
			covers: map[string]bool{"t1": false, "t2": true}},
		{name: "by no name", annotations: map[string]string{SharingPolicy: Optional, RangeNames: ""},
			covers: map[string]bool{"t1": false, "t2": false}},
		{name: "by selector", annotations: map[string]string{SharingPolicy: Optional, RangeSelector: "tier in (gold)"},
			covers: map[string]bool{"t1": true, "t2": false}},
		{name: "by either", annotations: map[string]string{SharingPolicy: Optional, RangeSelector: "tier=gold",
			RangeNames: "t2"}, covers: map[string]bool{"t1": true, "t2": true}},
		{name: "unknown policy", annotations: map[string]string{SharingPolicy: "always"},
			err: `"forced" or "optional"`},
		{name: "bad selector", annotations: map[string]string{SharingPolicy: Optional, RangeSelector: "tier in"},
			err: RangeSelector},
		{name: "bad name", annotations: map[string]string{SharingPolicy: Optional, RangeNames: "T_1"}, err: `"T_1"`},
		{name: "a range of nothing", annotations: map[string]string{RangeNames: "t1"}, err: SharingPolicy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseSharing(&metav1.ObjectMeta{Annotations: c.annotations, Labels: c.labels})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one about %s", err, c.err)
				}
				if s.Covers("t1", gold) {
					t.Error("it is shared all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Covers("t1", gold); got != c.covers["t1"] {
				t.Errorf("t1: %t", got)
			}
			if got := s.Covers("t2", nil); got != c.covers["t2"] {
				t.Errorf("t2: %t", got)
			}
		})
	}
}
