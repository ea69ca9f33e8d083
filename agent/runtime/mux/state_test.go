package mux

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

func TestStates(t *testing.T) {
	c := newPeer(t, "containerd")
	m, err := New(Options{Runtimes: registered(c)})
	if err != nil {
		t.Fatal(err)
	}
	if s := m.States(); len(s) != 1 || s[0].Ready != corev1.ConditionUnknown || s[0].Reason != ReasonUnasked {
		t.Errorf("before anything was asked: %+v", s)
	}
	if err := closeAll(m.all()); err != nil {
		t.Fatal(err)
	}
	k := serve(t, Options{Runtimes: registered(c)})
	good := k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
	if good.Version != "containerd 1.0" || !good.Primary || good.Type != workload.Container ||
		good.Endpoint != c.endpoint() {
		t.Errorf("state %+v", good)
	}
	c.set(func() { c.notReady = "NetworkPluginNotReady" })
	bad := k.awaitState(t, "containerd", corev1.ConditionFalse, "NetworkPluginNotReady")
	if !bad.Since.After(good.Since) {
		t.Errorf("not ready since %s, ready since %s", bad.Since, good.Since)
	}
	c.set(func() { c.notReady = "" })
	answer, err := k.Status(t.Context(), &runtimeapi.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if ready, reason, _ := readiness(answer); ready != corev1.ConditionTrue {
		t.Errorf("whoever asks when it became ready gets %s: %s", ready, reason)
	}
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)

	within := func(what string, ready corev1.ConditionStatus, reason string, f func()) {
		t.Helper()
		at := time.Now()
		f()
		s := k.awaitState(t, "containerd", ready, reason)
		t.Logf("%s was seen after %s (%s)", what, time.Since(at), s.Message)
	}
	within("an end", corev1.ConditionUnknown, ReasonUnreachable, c.server.Stop)
	within("a start", corev1.ConditionTrue, ReasonReady, func() { c.start(t) })
	hang := make(chan struct{})
	within("a hanging runtime", corev1.ConditionUnknown, ReasonUnreachable, func() { c.set(func() { c.hang = hang }) })
	within("its return", corev1.ConditionTrue, ReasonReady, func() { c.set(func() { close(hang); c.hang = nil }) })
}

func TestStatusAndVersion(t *testing.T) {
	k, c, v := both(t, Options{Grace: time.Hour})
	v.set(func() { v.notReady = "NoTaps" })
	k.awaitState(t, "qemu", corev1.ConditionFalse, "NoTaps")
	v.server.Stop()
	k.awaitState(t, "qemu", corev1.ConditionUnknown, ReasonUnreachable)
	check := func(when string) {
		t.Helper()
		r, err := k.Status(t.Context(), &runtimeapi.StatusRequest{})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if ready, _, _ := readiness(r); ready != corev1.ConditionTrue {
			t.Errorf("%s: the node is %s for %v", when, ready, r)
		}
		var names []string
		for _, h := range r.RuntimeHandlers {
			names = append(names, h.Name)
			if want := h.Name == "" || h.Name == "container" ||
				h.Name == "containerd"; h.GetFeatures().GetUserNamespaces() != want {
				t.Errorf("%s: handler %q with user namespaces %v", when, h.Name, !want)
			}
		}
		slices.Sort(names)
		if want := []string{"", "container", "containerd", "qemu", "runc", "vm"}; !slices.Equal(names, want) {
			t.Errorf("%s: handlers %q, want %q", when, names, want)
		}
		version, err := k.Version(t.Context(), &runtimeapi.VersionRequest{})
		if err != nil || version.RuntimeName != "containerd" {
			t.Errorf("%s: %v, %v", when, version, err)
		}
	}
	check("without the other runtime")
	c.server.Stop()
	k.awaitState(t, "containerd", corev1.ConditionUnknown, ReasonUnreachable)
	check("in the grace period")
	if _, err := k.Status(t.Context(), &runtimeapi.StatusRequest{Verbose: true}); err == nil {
		t.Error("people get to see less than the truth")
	}
}

// A status of the node has the version of its runtime, so a runtime that hangs
// must not hold it up.
func TestVersionOfAHangingPrimary(t *testing.T) {
	k, c, _ := both(t, Options{})
	hang := make(chan struct{})
	c.set(func() { c.hang = hang })
	k.awaitState(t, "containerd", corev1.ConditionUnknown, ReasonUnreachable)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	version, err := k.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil || version.RuntimeName != "containerd" {
		t.Errorf("%v, %v, want the last version", version, err)
	}
	status, err := k.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if ready, reason, _ := readiness(status); ready != corev1.ConditionFalse || reason != ReasonUnreachable {
		t.Errorf("without a grace period the kubelet gets %s: %s", ready, reason)
	}
	c.set(func() { close(hang); c.hang = nil })
	k.awaitState(t, "containerd", corev1.ConditionTrue, ReasonReady)
}

func TestRuntimesComeAndGo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the socket of administrators takes nobody else")
	}
	file := filepath.Join(t.TempDir(), "agent", "runtimes.json")
	c, v := newPeer(t, "containerd"), newPeer(t, "qemu")
	k := serve(t, Options{Runtimes: registered(c), File: file})
	added := registered(c, v)[1]
	if _, err := k.admin.Add(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	k.awaitState(t, "qemu", corev1.ConditionTrue, ReasonReady)
	if r, err := k.RunPodSandbox(t.Context(), request("vm", "")); err != nil ||
		!strings.HasPrefix(r.PodSandboxId, "qemu") {
		t.Errorf("a sandbox of the new type: %v, %v", r, err)
	}

	for _, bad := range []struct {
		r    Runtime
		want string
	}{
		{added, "named twice"},
		{Runtime{Name: "other", Type: workload.VM, Endpoint: added.Endpoint}, "named twice"},
		{Runtime{Name: "x", Type: "wasm", Endpoint: "/x"}, "unknown workload type"},
		{Runtime{Name: "x", Type: workload.VM, Endpoint: "x"}, "bad endpoint"},
		{Runtime{Name: "x", Type: workload.VM, Endpoint: noderuntime.Builtin}, "--runtime"},
		{Runtime{Name: "x", Type: workload.VM, Endpoint: "/x", Primary: true}, "primary"},
	} {
		if _, err := k.admin.Add(t.Context(), bad.r); !errors.Is(err, noderuntime.ErrRefused) ||
			!strings.Contains(err.Error(), bad.want) {
			t.Errorf("adding %+v: %v, want a refusal with %q", bad.r, err, bad.want)
		}
	}
	for name, want := range map[string]string{"none": "no such runtime", "containerd": "primary",
		"qemu": "still has pods: 1 sandboxes"} {
		if err := k.admin.Remove(t.Context(), name, false); !errors.Is(err, noderuntime.ErrRefused) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("removing %s: %v, want a refusal with %q", name, err, want)
		}
	}

	// It is there after a restart, unless the settings have its name.
	again := serve(t, Options{Runtimes: registered(c), File: file})
	again.awaitState(t, "qemu", corev1.ConditionTrue, ReasonReady)
	other := registered(c, newPeer(t, "other"))
	other[1].Name = "qemu"
	if s := serve(t, Options{Runtimes: other, File: file}).mux.States(); len(s) != 2 ||
		s[1].Endpoint != other[1].Endpoint {
		t.Errorf("the settings do not win: %+v", s)
	}

	// Out of reach, with what it had and without.
	v.server.Stop()
	k.awaitState(t, "qemu", corev1.ConditionUnknown, ReasonUnreachable)
	if err := k.admin.Remove(t.Context(), "qemu", false); !errors.Is(err, noderuntime.ErrRefused) ||
		!strings.Contains(err.Error(), "as far as is known") {
		t.Errorf("removing a runtime that cannot be asked: %v", err)
	}
	if err := k.admin.Remove(t.Context(), "qemu", true); err != nil {
		t.Errorf("removing it by force: %v", err)
	}
	if list, err := k.admin.List(t.Context()); err != nil || len(list) != 1 || list[0].Name != "containerd" {
		t.Errorf("left: %+v, %v", list, err)
	}
	if data, err := os.ReadFile(file); err != nil || strings.Contains(string(data), "qemu") {
		t.Errorf("the file says %s, %v", data, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Runtimes: registered(c), File: file}); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestOnlyRootIsAnswered(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	k := serve(t, Options{Runtimes: registered(newPeer(t, "containerd"))})
	for _, socket := range []string{k.mux.o.Socket, k.admin.Socket} {
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", socket, info, err)
		}
	}
	// Whatever the mode of the socket is.
	if err := errors.Join(os.Chmod(filepath.Dir(k.admin.Socket), 0o755), os.Chmod(k.admin.Socket, 0o666)); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is somebody else's from here on
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			got <- errno
			return
		}
		conn, err := net.Dial("unix", k.admin.Socket)
		if err == nil {
			defer conn.Close()
			_, err = conn.Read(make([]byte, 1))
		}
		got <- err
	}()
	if err := <-got; !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a stranger got %v, want a closed connection", err)
	}
	if _, err := k.admin.List(t.Context()); err != nil {
		t.Errorf("root: %v", err)
	}
}
