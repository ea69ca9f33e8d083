package cmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func TestTopTenants(t *testing.T) {
	noConfig(t)
	f := newFakeServer(t)
	f.use = &joinapi.TenantUse{Server: "one", Partition: "west", Processors: 2, Seconds: 62}
	f.use.Tenants = []joinapi.UseOfTenant{
		{Tenant: "noisy", SeatSeconds: 60, WaitedSeconds: 12.34, Requests: 900,
			Refused: map[string]int64{"full": 40, "late": 2},
			Work: []joinapi.UseForWork{{Work: "lists", SeatSeconds: 45}, {Work: "policies", SeatSeconds: 14},
				{Work: "gets", SeatSeconds: 1, Requests: 1}, {Work: "controllers", Requests: 700}}},
		{Tenant: "calm", SeatSeconds: 20, Requests: 3, Work: []joinapi.UseForWork{{Work: "watches", SeatSeconds: 20}}},
		{Tenant: "(unknown)", Work: []joinapi.UseForWork{{Work: "gets", Requests: 1}}},
	}
	out, err := f.run(t, "top", "tenants")
	want := "Server:      one (" + f.url + ")\nPartition:   west\n" +
		"Seat time:   80.0 s in the last 62 s, on 2 processors\n\n" +
		`TENANT      SHARE   SEAT TIME   REQUESTS   WAITED   REFUSED        MOSTLY BY
noisy       75%     60.0s       900        12.3s    42 full,late   lists 75%, policies 23%, controllers 700 requests
calm        25%     20.0s       3          0.0s     0              watches 100%
(unknown)   0%      0.0s        0          0.0s     0              gets 0%
`
	if err != nil || out != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	out, err = f.run(t, "top", "tenants", "-n", "1")
	if err != nil || strings.Contains(out, "calm") || !strings.Contains(out, "noisy       75%") &&
		!strings.Contains(out, "noisy    75%") || !strings.Contains(out, "2 more used less; --limit 0 shows all.") {
		t.Errorf("the first: %v\n%s", err, out)
	}
	for limit, want := range map[string]int{"0": 3, "2": 2, "9": 3} {
		out, err = f.run(t, "top", "tenants", "-o", "json", "--limit", limit)
		var use joinapi.TenantUse
		if err := json.Unmarshal([]byte(out), &use); err != nil {
			t.Fatal(err)
		}
		if err != nil || len(use.Tenants) != want || use.Server != "one" || use.Tenants[0].Refused["full"] != 40 {
			t.Errorf("--limit %s: %v, %+v", limit, err, use)
		}
	}
	f.use = &joinapi.TenantUse{Tenants: []joinapi.UseOfTenant{}}
	if out, err = f.run(t, "top", "tenants"); err != nil || !strings.Contains(out, "none has asked for anything") {
		t.Errorf("of a server that nobody asked: %v\n%s", err, out)
	}
	f.use = nil
	out, err = f.run(t, "top", "tenants")
	if err == nil || !strings.Contains(err.Error(), "of an administrator") || out != "" {
		t.Errorf("of who is no administrator: %v\n%s", err, out)
	}
}
