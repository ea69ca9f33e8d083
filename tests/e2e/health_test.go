package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// diagnosis is what `a4s doctor -o json` prints.
type diagnosis struct {
	Running  *struct{ Mode, Node string }
	Problems []struct{ Code, Severity, Subject, Detail, Fix string }
}

func (n *node) doctor(t *testing.T) (diagnosis, int) {
	t.Helper()
	r := n.a4s(t, "doctor", "-o", "json")
	var d diagnosis
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
		t.Fatalf("a4s doctor: %v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return d, r.ExitCode
}

func (d diagnosis) has(code string) bool {
	for _, p := range d.Problems {
		if p.Code == code {
			return true
		}
	}
	return false
}

// What goes wrong is told by doctor, status, metrics and Events, and is gone
// from all of them afterwards.
func TestDoctorTellsOfAHungRuntime(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "doctored")
	c.waitOwnNode(t)
	hosts.Until(t, soon, "a4s doctor finds no problem of a4s", func(context.Context) error {
		d, _ := c.doctor(t)
		if d.Running == nil || d.Running.Mode != "server" || d.Running.Node != c.host.Name {
			return fmt.Errorf("it found %+v", d.Running)
		}
		for _, p := range d.Problems {
			if p.Code != "check-config" && p.Code != "clock-unsynchronized" && p.Code != "packet-filter-degraded" &&
				p.Code != "disk-almost-full" {
				return fmt.Errorf("it found %+v", p)
			}
		}
		return nil
	})

	pid := childNamed(t, c.proc.PID(), "containerd")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	hosts.Until(t, soon, "a4s doctor finds the hung runtime", func(context.Context) error {
		if d, code := c.doctor(t); !d.has("runtime-not-ready") || code != 1 {
			return fmt.Errorf("exit code %d, %+v", code, d.Problems)
		}
		return nil
	})
	if out := c.must(t, "status"); !strings.Contains(out, "runtime is not ready") {
		t.Errorf("a4s status lacks the problem:\n%s", out)
	}
	hosts.Until(t, soon, "an Event tells of it", func(ctx context.Context) error {
		list, err := c.client.CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "reason=RuntimeNotReady"})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == c.host.Name &&
				e.Type == corev1.EventTypeWarning {
				return nil
			}
		}
		return errors.New("there is none")
	})

	// The kubelet's part of the metrics asks the runtime.
	if m := c.metrics(t, "/metrics"); !strings.Contains(m,
		`a4s_health_condition{code="runtime-not-ready",severity="error"} 1`) {
		t.Error("/metrics do not tell of the hung runtime")
	}

	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "a4s doctor finds the runtime well", func(context.Context) error {
		if d, _ := c.doctor(t); d.has("runtime-not-ready") || d.has("node-not-ready") {
			return fmt.Errorf("%+v", d.Problems)
		}
		return nil
	})
	// The server reports its node, too, and the kubelet of the node alone.
	both := []string{`a4s_health_condition{code="runtime-not-ready",severity="error"} 0`,
		"a4s_certificate_expiration_seconds{", `a4s_component_restarts{name="kubelet"}`}
	for path, want := range map[string][]string{
		"/metrics": append([]string{"a4s_tenants "}, both...),
		"/api/v1/nodes/" + c.host.Name + "/proxy/metrics": both,
	} {
		m := c.metrics(t, path)
		for _, series := range want {
			if !strings.Contains(m, series) {
				t.Errorf("%s lacks %s", path, series)
			}
		}
	}
}

// An agent says by itself that its server is away, and nothing that follows
// from it.
func TestDoctorOfAnAgent(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "away", "--disable-agent")
	n := newAgent(t, "doctored-agent", c)
	c.waitNodeReady(t, n.host.Name, n.started)
	if d, _ := n.doctor(t); d.Running == nil || d.Running.Mode != "agent" || d.has("server-unreachable") {
		t.Errorf("at first it found %+v", d)
	}
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the agent misses its server", func(context.Context) error {
		d, code := n.doctor(t)
		if !d.has("server-unreachable") || d.has("node-not-ready") || d.has("component-not-ready") || code != 1 {
			return fmt.Errorf("exit code %d, %+v", code, d.Problems)
		}
		return nil
	})
	c.restart(t)
	hosts.Until(t, soon, "the agent has its server again, and tells of the time without",
		func(ctx context.Context) error {
			if d, _ := n.doctor(t); d.has("server-unreachable") {
				return fmt.Errorf("%+v", d.Problems)
			}
			list, err := c.client.CoreV1().Events("default").List(ctx,
				metav1.ListOptions{FieldSelector: "reason=ServerUnreachableSolved"})
			if err == nil && len(list.Items) == 0 {
				err = errors.New("there is no Event")
			}
			return err
		})
}

// metrics reads a path of the API as the administrator.
func (c *cluster) metrics(t *testing.T, path string) string {
	t.Helper()
	text, err := c.client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return string(text)
}

// A rotation of the key of Secrets that is killed in the middle is finished by
// the same command.
func TestKilledRotationOfSecrets(t *testing.T) {
	t.Parallel()
	c := ownCluster(t, "rotated", "--disable-agent")
	ns := c.namespace(t)
	const many = 200
	for i := range many {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)},
			StringData: map[string]string{"k": "word"}}
		if _, err := c.client.CoreV1().Secrets(ns).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if out := c.must(t, "secrets-encrypt", "status"); !strings.Contains(out, "disabled") ||
		!strings.Contains(out, "none") {
		t.Errorf("at first the status is\n%s", out)
	}
	c.must(t, "secrets-encrypt", "enable")
	type status struct {
		Stage, ActiveKey string
		Stored           map[string]int
		Pending          int
	}
	state := func() (s status) {
		t.Helper()
		if err := json.Unmarshal([]byte(c.must(t, "secrets-encrypt", "status", "-o", "json")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := state(); s.ActiveKey != "key1" || s.Pending != 0 || s.Stored["key1"] < many {
		t.Fatalf("enabled, the status is %+v", s)
	}

	rotation, err := c.host.Start(env.binary, "secrets-encrypt", "rotate")
	if err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the new key is used", func(context.Context) error {
		if s := state(); s.Stage != "key-promoted" {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	c.proc.Kill()
	_ = rotation.Stop(stopTimeout) // it failed with the server
	c.restart(t)
	if s := state(); s.Stage != "key-promoted" || s.ActiveKey != "key2" {
		t.Fatalf("killed in the middle, the status is %+v", s)
	}
	hosts.Until(t, soon, "a4s doctor says that the rotation was interrupted", func(context.Context) error {
		if d, _ := c.doctor(t); !d.has("secrets-encryption-unfinished") {
			return fmt.Errorf("%+v", d.Problems)
		}
		return nil
	})
	if m := c.metrics(t, "/metrics"); !strings.Contains(m,
		`a4s_health_condition{code="secrets-encryption-unfinished",severity="warning"} 1`) {
		t.Error("the metrics do not say so")
	}
	c.must(t, "secrets-encrypt", "rotate")
	if s := state(); s.Stage != "enabled" || s.ActiveKey != "key2" || s.Pending != 0 || s.Stored["key2"] < many ||
		len(s.Stored) != 1 {
		t.Errorf("at the end the status is %+v", s)
	}
	list, err := c.client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != many {
		t.Fatalf("%d Secrets, %v", len(list.Items), err)
	}
	for _, s := range list.Items {
		if string(s.Data["k"]) != "word" {
			t.Errorf("%s says %q", s.Name, s.Data["k"])
		}
	}
}
