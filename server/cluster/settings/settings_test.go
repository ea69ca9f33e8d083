package settings

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// freely are the settings that each start and each server may have as it likes, by why.
func freely() map[string][]string {
	return map[string][]string{
		"where this process is, and what it says": {"config", "data-dir", "debug", "v", "vmodule", "log",
			"bind-address", "https-listen-port", "advertise-address", "write-kubeconfig", "write-kubeconfig-mode",
			"write-kubeconfig-group", "audit-log-path", "audit-policy-file"},
		"it counts at one start":              {"server", "cluster", "cluster-reset"},
		"certificates are made again with it": {"tls-san", "certificate-lifetime"},
		"how the datastore is reached":        {"datastore-cafile", "datastore-certfile", "datastore-keyfile"},
		"a server may go to another group":    {"service-group-id", "auto-groups"},
		"it is about what happens from now on": {"tenant-default-limits", "default-local-storage-path",
			"servicelb-reserved-ports"},
		"what is left out comes back with the next start": {"disable", "disable-scheduler",
			"disable-network-policy", "disable-helm-controller"},
		"snapshots that are there stay": {"etcd-disable-snapshots", "etcd-snapshot-schedule-cron",
			"etcd-snapshot-retention", "etcd-snapshot-dir", "etcd-snapshot-name", "etcd-snapshot-compress",
			"etcd-s3", "etcd-s3-endpoint", "etcd-s3-endpoint-ca", "etcd-s3-skip-ssl-verify", "etcd-s3-access-key",
			"etcd-s3-secret-key", "etcd-s3-session-token", "etcd-s3-bucket", "etcd-s3-bucket-lookup-type",
			"etcd-s3-region", "etcd-s3-folder", "etcd-s3-insecure", "etcd-s3-timeout", "etcd-s3-retention",
			"etcd-s3-proxy", "etcd-s3-config-secret"},
		"the node of this machine takes it over; another name is another node": {"node-name", "with-node-id",
			"node-label", "node-taint", "node-ip", "node-external-ip", "resolv-conf", "flannel-iface", "proxy-mode",
			"disable-kube-proxy", "private-registry", "snapshotter", "pause-image", "container-runtime-endpoint",
			"runtime", "default-runtime", "runtime-grace-periods", "vm-kernel", "vm-initrd", "vm-accelerator",
			"bootstrap-pod-api", "leave-kernel-limits"},
		"whoever gives arguments to upstream's programs answers for them": {"kube-apiserver-arg",
			"kube-controller-manager-arg", "kube-scheduler-arg", "etcd-arg", "kubelet-arg", "kube-proxy-arg"},
	}
}

// TestEverySettingIsDecided: a new flag of a server is decided about, once.
func TestEverySettingIsDecided(t *testing.T) {
	decided := map[string]int{}
	for _, d := range decisions() {
		decided[d.name]++
		if d.why == "" || (d.rule == stays || d.rule == said || d.servers || d.partitions) && d.value == nil {
			t.Errorf("%s: no reason, or no value that could be compared", d.name)
		}
	}
	for why, names := range freely() {
		for _, name := range names {
			decided[name]++
		}
		if why == "" {
			t.Errorf("%v: no reason", names)
		}
	}
	for _, s := range config.ServerSettings(&config.Server{}) {
		if decided[s.Name] != 1 {
			t.Errorf("%s is decided %d times: say in the table what a later start may do with it", s.Name,
				decided[s.Name])
		}
		delete(decided, s.Name)
	}
	for name := range decided {
		t.Errorf("there is no flag --%s", name)
	}
}

// TestEveryValueIsOfItsFlag: what is compared changes with the flag, and with no other.
func TestEveryValueIsOfItsFlag(t *testing.T) {
	given := map[string]string{"cluster-cidr": "10.52.0.0/16", "service-cidr": "10.53.0.0/16",
		"service-node-port-range": "28000-29999", "cluster-dns": "10.43.0.11", "cluster-domain": "other.local",
		"flannel-backend": "host-gw", "default-tenant": "t1", "secrets-encryption": "true"}
	for _, d := range decisions() {
		if d.value == nil {
			continue
		}
		if c := server(t, "--"+d.name+"="+given[d.name]); d.value(c) != given[d.name] {
			t.Errorf("%s: %q", d.name, d.value(c))
		}
	}
}

func server(t *testing.T, args ...string) *config.Server {
	t.Helper()
	c, _, err := config.LoadServer(config.Source{Args: args, DefaultFile: t.TempDir() + "/none.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLaterStarts: what a server that has run may be started with.
func TestLaterStarts(t *testing.T) {
	const nodePorts, ofTenant = "--service-node-port-range=", "--default-tenant="
	of := []string{"--service-cidr=10.44.0.0/16", "--cluster-cidr=10.142.0.0/16", ofTenant + "t1",
		nodePorts + "28000-29999"}
	// with is another value of a flag that the server had, and without that it is left away.
	without := func(flag string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(arg string) bool { return strings.HasPrefix(arg, flag) })
	}
	with := func(flag, value string) []string { return append(without(flag), flag+value) }
	for what, c := range map[string]struct {
		args []string
		want []string // what the refusal says, nil for none
	}{
		"as before": {of, nil},
		"nothing": {nil, []string{
			`--service-cidr: it is not given, which makes it "10.43.0.0/16"; this server of partition tp2 has run ` +
				`with "10.44.0.0/16"`,
			"want --service-cidr 10.44.0.0/16, as at its first start", "want --cluster-cidr 10.142.0.0/16,",
			"want --service-node-port-range 28000-29999, or the value that it is to change to",
			"want --default-tenant t1,"}},
		// DNS follows from the range of Services, and is refused by its name as well.
		"other Services": {with("--service-cidr=", "10.45.0.0/16"),
			[]string{`--service-cidr: invalid value "10.45.0.0/16"`, "--cluster-dns"}},
		"other pods": {with("--cluster-cidr=", "10.52.0.0/16"),
			[]string{`--cluster-cidr: invalid value "10.52.0.0/16"`}},
		"another domain":           {with("--cluster-domain=", "other"), []string{"--cluster-domain: invalid value"}},
		"another DNS":              {with("--cluster-dns=", "10.44.0.11"), []string{"--cluster-dns: invalid value"}},
		"other node ports, said":   {with(nodePorts, "26000-26999"), nil},
		"the default, said":        {with(nodePorts, "30000-32767"), nil},
		"node ports are left away": {without(nodePorts), []string{"--service-node-port-range: it is not given"}},
		"the tenant is left away":  {without(ofTenant), []string{"--default-tenant: it is not given"}},
		"no tenant any more, said": {with(ofTenant, ""), nil},
		"another backend, said":    {with("--flannel-backend=", "host-gw"), nil},
		"what may differ":          {append(with("--tls-san=", "x"), "--disable-network-policy"), nil},
	} {
		dir := t.TempDir()
		if err := Write(dir, server(t, of...)); err != nil {
			t.Fatal(err)
		}
		had, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = had.Check(server(t, c.args...), "tp2")
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", what, err)
		}
		var in *problem.Input
		if err != nil && !errors.As(err, &in) {
			t.Errorf("%s: %v is no problem of input", what, err)
		}
		for _, text := range c.want {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v\nwant one that says %s", what, err, text)
			}
		}
	}
}

// TestWithoutARecord nothing is refused, and what a record lacks is not either.
func TestWithoutARecord(t *testing.T) {
	dir := t.TempDir()
	had, err := Read(dir)
	if err != nil || had != nil {
		t.Fatalf("%v, %v", had, err)
	}
	for _, r := range []Record{nil, {}, {"later": "x"}} {
		if err := r.Check(server(t, "--service-cidr=10.44.0.0/16"), ""); err != nil {
			t.Errorf("%v: %v", r, err)
		}
	}
	for _, text := range []string{"", "null", "{", "[]"} {
		if err := os.WriteFile(file(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var pre *problem.Precondition
		if _, err := Read(dir); !errors.As(err, &pre) {
			t.Errorf("a record %q: %v", text, err)
		}
	}
}
