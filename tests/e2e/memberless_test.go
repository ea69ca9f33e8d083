package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestServerWithoutMember: a server with --disable-etcd uses the embedded etcd of the
// others, follows its members, and starts again without the one that it joined.
func TestServerWithoutMember(t *testing.T) {
	t.Parallel()
	one := ownCluster(t, "member-1", "--cluster-init", "--disable-agent")
	guest := joinServer(t, "guest", one, "--disable-etcd", "--disable-agent")
	one.waitServers(t, one, guest)
	guest.must(t, "tenant", "create", "alpha", "--output", "/run/alpha")
	ctx := t.Context()
	write := func(through *cluster, name string) {
		t.Helper()
		hosts.Until(t, startTimeout, through.host.Name+" writes "+name, func(ctx context.Context) error {
			_, err := through.inSpace(t, "alpha").CoreV1().ConfigMaps("default").
				Create(ctx, configMap(name, "x"), metav1.CreateOptions{})
			return err
		})
	}
	read := func(through *cluster, name string) {
		t.Helper()
		if _, err := through.inSpace(t, "alpha").CoreV1().ConfigMaps("default").
			Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", through.host.Name, err)
		}
	}
	write(guest, "by-guest")
	read(one, "by-guest")
	if _, err := os.Stat(guest.host.Path(dataDir + "/server/db/etcd")); !os.IsNotExist(err) {
		t.Errorf("it has data of etcd: %v", err)
	}
	for _, r := range []struct {
		on   *cluster
		says string
		args []string
	}{
		{guest, "--disable-etcd", []string{"etcd-snapshot", "save"}},
		{guest, "--disable-etcd", []string{"secrets-encrypt", "enable"}},
		{one, "guest", []string{"secrets-encrypt", "enable"}},
		{one, "guest", []string{"certificate", "rotate-ca"}},
	} {
		if got := r.on.a4s(t, r.args...); got.ExitCode == 0 || !strings.Contains(got.Stderr, r.says) {
			t.Errorf("%s on %s: exit code %d\n%s%s", r.args, r.on.host.Name, got.ExitCode, got.Stdout, got.Stderr)
		}
	}
	// Members join through it, too, and it learns of them.
	two := joinServer(t, "member-2", guest, "--disable-agent")
	three := joinServer(t, "member-3", one, "--disable-agent")
	guest.waitMembers(t, one, two, three)
	if out := guest.must(t, "etcd-member", "list"); strings.Count(out, " votes\n") != 3 {
		t.Errorf("members:\n%s", out)
	}
	one.proc.Kill()
	write(guest, "without-one")
	read(three, "without-one")
	if err := guest.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	r := guest.a4s(t, "certificate", "rotate-ca")
	if r.ExitCode == 0 || !strings.Contains(r.Stderr, "--disable-etcd") {
		t.Errorf("new CAs on a stopped server: exit code %d\n%s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
	// Its --server is away; it knows where the others are.
	guest.restart(t)
	read(guest, "without-one")
	write(guest, "after-its-start")
	read(two, "after-its-start")
	guest.proc.Kill()
	one.restart(t)
	guest.restart(t)
	read(guest, "after-its-start")
	// It removes members, and follows that.
	if err := three.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	guest.must(t, "etcd-member", "remove", three.host.Name)
	guest.waitMembers(t, one, two)
	write(guest, "with-two")
}

// waitMembers waits until a server without a member knows those of these servers.
func (c *cluster) waitMembers(t *testing.T, servers ...*cluster) {
	t.Helper()
	hosts.Until(t, startTimeout, "the members that "+c.host.Name+" knows", func(context.Context) error {
		data, err := os.ReadFile(c.host.Path(dataDir + "/server/db/members.json"))
		if err != nil {
			return err
		}
		var kept struct{ Members []string }
		if err := json.Unmarshal(data, &kept); err != nil {
			return err
		}
		for _, s := range servers {
			if !strings.Contains(fmt.Sprint(kept.Members), "https://"+s.host.IP.String()+":2379") {
				return fmt.Errorf("they are %q", kept.Members)
			}
		}
		if len(kept.Members) != len(servers) {
			return fmt.Errorf("they are %q", kept.Members)
		}
		return nil
	})
}
