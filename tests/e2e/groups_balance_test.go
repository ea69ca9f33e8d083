package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// groupsShown is what `a4s groups list -o json` prints, as far as tests need it.
type groupsShown struct {
	Revision int64
	Groups   []struct {
		ID, Range          string
		Tenants            int
		Writes, WatchBytes float64
	}
	Servers []struct {
		Name, Group string
		Ready       bool
		Applied     int64
	}
}

func (c *cluster) groups(t *testing.T) groupsShown {
	t.Helper()
	var out groupsShown
	if err := json.Unmarshal([]byte(c.must(t, "groups", "list", "-o", "json")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestServiceGroupsAreBalanced: doctor finds what is wrong with the ranges of groups; once
// that is right, the server that leads would move tenants by their load ten minutes later,
// and a4s groups apply does at once; status, metrics and a4s groups list show how far each
// server is.
func TestServiceGroupsAreBalanced(t *testing.T) {
	t.Parallel()
	const minutes = 4 * time.Minute // the servers look and publish every minute
	zero := ownCluster(t, "balance-0", "--cluster-init", "--disable-agent", "--service-group-id", "0",
		"--auto-groups")
	one := joinServer(t, "balance-1", zero, "--disable-agent", "--service-group-id", "1", "--auto-groups")
	zero.waitServers(t, zero, one)
	ctx := t.Context()

	// They overlap from k to m, nobody has t to y, and group 2 has no server. So the
	// ranges do not touch each other, and nothing is moved.
	zero.setRange(t, "0", "", "m")
	zero.setRange(t, "1", "k", "t")
	zero.setRange(t, "2", "y", "")
	for _, tenant := range []string{"alpha", "bravo", "charlie", "zulu"} {
		zero.must(t, "tenant", "create", tenant, "--output", "/run/"+tenant)
	}
	watched, err := one.inSpace(t, "alpha").CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	for _, tenant := range []string{"alpha", "bravo", "charlie"} {
		for i := range 60 {
			if _, err := zero.inSpace(t, tenant).CoreV1().ConfigMaps("default").
				Create(ctx, configMap(fmt.Sprint("many-", i), tenant), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	codes := []string{"service-group-gap", "service-group-overlap", "service-group-without-servers"}
	hosts.Until(t, minutes, "a4s doctor finds what is wrong with the groups", func(context.Context) error {
		d, _ := zero.doctor(t)
		subjects := map[string]string{}
		for _, p := range d.Problems {
			subjects[p.Code] = p.Subject
		}
		if !d.has(codes[0]) || subjects[codes[1]] != "0 and 1" || subjects[codes[2]] != "2" {
			return fmt.Errorf("%+v", d.Problems)
		}
		return nil
	})
	metrics := zero.metrics(t, "/metrics")
	for _, code := range codes {
		if want := fmt.Sprintf("a4s_health_condition{code=%q,severity=\"warning\"} 1", code); !strings.Contains(
			metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	hosts.Until(t, minutes, "the load of the tenants is known", func(context.Context) error {
		g := zero.groups(t)
		if len(g.Groups) < 3 || g.Groups[0].Writes <= 0 || g.Groups[0].WatchBytes <= 0 {
			return fmt.Errorf("%+v", g.Groups)
		}
		return nil
	})

	client, err := partitionapi.NewClient(zero.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(ctx, "partition-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	zero.setRange(t, "1", "m", "")
	hosts.Until(t, minutes, "the server that leads says that it waits", func(context.Context) error {
		for _, c := range []*cluster{zero, one} {
			if log := c.proc.Output(); strings.Contains(log, "ranges of service groups overlap") &&
				strings.Contains(log, "what was changed is left alone") {
				return nil
			}
		}
		return errors.New("no log has it")
	})
	zero.must(t, "groups", "apply")
	hosts.Until(t, soon, "the boundary is moved", func(context.Context) error {
		c, err := client.Get(ctx, "partition-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c.RangeStart == "m" {
			return errors.New("it is where it was")
		}
		if c.RangeStart != "charlie" {
			t.Fatalf("it is moved to %s", c.RangeStart)
		}
		return nil
	})
	zero.waitTenants(t, zero.informer(t, "0"), "alpha", "bravo")
	one.waitTenants(t, one.informer(t, "1"), "charlie", "zulu")
	var revision int64
	hosts.Until(t, soon, "every server says that it has applied the move", func(context.Context) error {
		g := one.groups(t)
		revision = g.Revision
		for _, s := range g.Servers {
			if !s.Ready || s.Applied != revision {
				return fmt.Errorf("%+v", g)
			}
		}
		if len(g.Servers) != 2 || len(g.Groups) != 2 || g.Groups[0].Tenants != 2 || g.Groups[1].Tenants != 2 {
			return fmt.Errorf("%+v", g)
		}
		return nil
	})
	status := zero.must(t, "status")
	for _, want := range []string{fmt.Sprint("revision ", revision), "[charlie, )", "balance-1",
		"every server that is ready has applied it"} {
		if !strings.Contains(status, want) {
			t.Errorf("the status lacks %q:\n%s", want, status)
		}
	}
	for group, c := range map[string]*cluster{"0": zero, "1": one} {
		metrics := c.metrics(t, "/metrics")
		for _, want := range []string{
			fmt.Sprintf("a4s_service_group_tenants{group=%q} 2", group),
			fmt.Sprintf("a4s_service_group_objects{group=%q} ", group),
			fmt.Sprintf("a4s_service_group_moves{group=%q} ", group),
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("the metrics of %s lack %s", c.host.Name, want)
			}
		}
		var applied float64
		for line := range strings.Lines(metrics) {
			if rest, ok := strings.CutPrefix(line, fmt.Sprintf("a4s_service_group_revision{group=%q} ", group)); ok {
				fmt.Sscan(rest, &applied) //nolint:errcheck // then it is 0
			}
		}
		if int64(applied) != revision {
			t.Errorf("by its metrics %s has applied %v, want %d", c.host.Name, applied, revision)
		}
	}
	hosts.Until(t, minutes, "a4s doctor finds the groups well", func(context.Context) error {
		d, _ := zero.doctor(t)
		for _, code := range codes {
			if d.has(code) {
				return fmt.Errorf("%+v", d.Problems)
			}
		}
		return nil
	})
}
