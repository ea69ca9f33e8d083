package settings

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/internal/problem"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func sample() Node {
	return Node{
		DataDir:         "/var/lib/a4s",
		IPs:             []string{"192.0.2.1"},
		ClientCAFile:    "/var/lib/a4s/agent/tls/client-ca.crt",
		CertFile:        "/var/lib/a4s/agent/tls/serving-kubelet.crt",
		KeyFile:         "/var/lib/a4s/agent/tls/serving-kubelet.key",
		ClusterDNS:      "10.43.0.10",
		ClusterDomain:   "cluster.local",
		RuntimeEndpoint: "unix:///run/a4s/containerd/containerd.sock",
		ResolvConf:      "/etc/resolv.conf",
	}
}

func TestGolden(t *testing.T) {
	restricted := sample()
	restricted.Host = host.Info{MaxOpenFiles: 20000}
	systemd := sample()
	systemd.Host = host.Info{CgroupV2: true, Systemd: true, CanLowerOOMScore: true, MaxOpenFiles: 1 << 30}
	systemd.IPs = []string{"2001:db8::1"}
	systemd.ResolvConf = ""
	systemd.Taints = []string{"dedicated=db:NoSchedule", "edge:NoExecute"}
	for name, n := range map[string]Node{"restricted": restricted, "systemd": systemd} {
		t.Run(name, func(t *testing.T) {
			c, err := n.Configuration()
			if err != nil {
				t.Fatal(err)
			}
			got, err := YAML(c)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestParseLabels(t *testing.T) {
	got, err := ParseLabels([]string{"a=b", "example.com/c="})
	if want := map[string]string{"a": "b", "example.com/c": ""}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	var input *problem.Input
	for _, bad := range []string{"a", "=b", ""} {
		if _, err := ParseLabels([]string{bad}); !errors.As(err, &input) {
			t.Errorf("%q: error = %v, want a problem.Input", bad, err)
		}
	}
}

func TestParseTaints(t *testing.T) {
	got, err := ParseTaints([]string{"a=b:NoSchedule", "c:NoExecute"})
	want := []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "c", Effect: "NoExecute"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	var input *problem.Input
	for _, bad := range []string{"a=b", "a=b:Never", "=b:NoSchedule", ""} {
		if _, err := ParseTaints([]string{bad}); !errors.As(err, &input) {
			t.Errorf("%q: error = %v, want a problem.Input", bad, err)
		}
	}
}

func TestMerge(t *testing.T) {
	base := "a: 1\nb: {c: 2, d: [1, 2]}\n"
	got, err := Merge([]byte(base), []byte("b: {d: [3], e: 4}\nf: {g: 5}\n"))
	if want := "a: 1\nb:\n  c: 2\n  d:\n  - 3\n  e: 4\nf:\n  g: 5\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := Merge([]byte(base), []byte("a: 1\na: 2\n")); err == nil {
		t.Error("a key given twice is no error")
	}
}
