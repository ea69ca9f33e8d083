package cmd

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/workload"
)

// serveNode answers at the socket as a node with one runtime.
func serveNode(t *testing.T) (socket string, asked *[]string) {
	t.Helper()
	socket, asked = filepath.Join(t.TempDir(), "s"), &[]string{}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	state := noderuntime.State{Name: "containerd", Type: workload.Container, Endpoint: "unix:///c", Primary: true,
		Ready: corev1.ConditionTrue, Reason: "RuntimeReady", Version: "containerd 2",
		Since: time.Now().Add(-time.Minute)}
	server := &http.Server{ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*asked = append(*asked, r.Method+" "+r.URL.String())
			switch {
			case r.Method == http.MethodGet:
				_ = json.NewEncoder(w).Encode([]noderuntime.State{state})
			case r.Method == http.MethodPost:
				_ = json.NewEncoder(w).Encode(state)
			case r.URL.Path == "/runtimes/containerd":
				w.WriteHeader(http.StatusConflict)
				_ = json.NewEncoder(w).Encode(noderuntime.Refusal{Error: "it is primary"})
			}
		})}
	go func() { _ = server.Serve(listener) }() // Close ends it
	t.Cleanup(func() { _ = server.Close() })
	return socket, asked
}

func TestRuntimeCommand(t *testing.T) {
	socket, asked := serveNode(t)
	var input *problem.Input
	var precondition *problem.Precondition
	for _, c := range []struct {
		args string
		out  string // a part of it
		err  any    // nil, or the kind of error
		text string // a part of it
		ask  string
	}{
		{"list", "containerd   container   yes       True    60s     RuntimeReady   containerd 2   unix:///c", nil,
			"", "GET /runtimes"},
		{"list -o json", `"workloadType": "container"`, nil, "", "GET /runtimes"},
		{"list -o yaml", "", &input, "table or json", ""},
		{"add vm vm /run/vm.sock", "added containerd", nil, "", "POST /runtimes"},
		{"add vm vm /run/vm.sock -o json", `"endpoint": "unix:///c"`, nil, "", "POST /runtimes"},
		{"add vm wasm /run/vm.sock", "", &input, "unknown workload type", ""},
		{"add vm vm", "", &input, "arguments of", ""},
		{"remove vm", "removed vm", nil, "", "DELETE /runtimes/vm"},
		{"remove vm --force", "removed vm", nil, "", "DELETE /runtimes/vm?force=true"},
		{"remove containerd", "", &input, "it is primary", "DELETE /runtimes/containerd"},
		{"list --socket /nowhere", "", &precondition, "run as root", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			*asked = nil
			args := append([]string{"a4s", "runtime"}, strings.Fields(c.args)...)
			if !strings.Contains(c.args, "--socket") {
				args = append(args, "--socket", socket)
			}
			var out strings.Builder
			app := NewApp(Modes{})
			app.Stdout = &out
			err := app.RunContext(t.Context(), args)
			if (c.err == nil) != (err == nil) || c.err != nil && !errors.As(err, c.err) ||
				err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want %T with %q", err, c.err, c.text)
			}
			if !strings.Contains(out.String(), c.out) || strings.Join(*asked, ";") != c.ask {
				t.Errorf("asked %v, want %q, and printed:\n%s", *asked, c.ask, &out)
			}
		})
	}
}
