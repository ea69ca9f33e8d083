package partition

import (
	"os"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/cluster/settings"
)

// TestAServerStartsAgainWithoutItsRanges: it is refused by what is in its own directory, the record of its last start
// or, of a server that kept none, what home has registered. Home is not asked.
func TestAServerStartsAgainWithoutItsRanges(t *testing.T) {
	load := func(args ...string) *config.Server {
		c, _, err := config.LoadServer(config.Source{Args: args, DefaultFile: t.TempDir() + "/none.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ranges := []string{"--service-cidr=10.44.0.0/16", "--cluster-cidr=10.142.0.0/16",
		"--service-node-port-range=28000-29999"}
	own := func(dir string, c *config.Server) *Own {
		return &Own{server: Server{Config: c, Dir: dir}, member: &joinapi.Membership{Name: "tp2", Identity: "id"}}
	}
	registered := func(dir string) {
		text := `{"partitions":[{"metadata":{"name":"main"},"spec":{"serviceCIDR":"10.43.0.0/16"}},` +
			`{"metadata":{"name":"tp2"},"spec":{"serviceCIDR":"10.44.0.0/16","clusterCIDR":"10.142.0.0/16",` +
			`"nodePortRange":"28000-29999","clusterDNS":"10.44.0.10"}}]}`
		if err := os.WriteFile(own(dir, nil).directoryFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for what, begin := range map[string]func(dir string){
		"a record": func(dir string) {
			if err := settings.Write(dir, load(ranges...)); err != nil {
				t.Fatal(err)
			}
		},
		"an a4s without a record has run": registered,
	} {
		dir := t.TempDir()
		if err := own(dir, load()).CheckSettings(); err != nil {
			t.Errorf("%s: the first start: %v", what, err)
		}
		begin(dir)
		if err := own(dir, load(ranges...)).CheckSettings(); err != nil {
			t.Errorf("%s: with its ranges: %v", what, err)
		}
		err := own(dir, load()).CheckSettings()
		wants := []string{"partition tp2", "--service-cidr 10.44.0.0/16", "--service-node-port-range 28000-29999"}
		if what == "a record" { // what home has of pods can be older
			wants = append(wants, "--cluster-cidr 10.142.0.0/16")
		}
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: without them: %v, want one that says %s", what, err, want)
			}
		}
	}
	// What home has is old when the server has a record.
	dir := t.TempDir()
	registered(dir)
	moved := load(ranges[0], ranges[1], "--service-node-port-range=26000-26999")
	if err := settings.Write(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := own(dir, moved).CheckSettings(); err != nil {
		t.Errorf("with the ranges of its last start: %v", err)
	}
	// A file that is damaged says nothing.
	damaged := t.TempDir()
	if err := os.WriteFile(own(damaged, nil).directoryFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := own(damaged, load()).CheckSettings(); err != nil {
		t.Error(err)
	}
}
