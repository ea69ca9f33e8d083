package release

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"
)

// logged is a log of the server that can be read.
func logged(level logrus.Level) (*logrus.Entry, *bytes.Buffer) {
	text := &bytes.Buffer{}
	log := logrus.New()
	log.SetOutput(text)
	log.SetLevel(level)
	return logrus.NewEntry(log), text
}

// TestHooksMayAskForTheirLogs: Helm calls what shows them in a goroutine of its own, where a panic ends the server.
func TestHooksMayAskForTheirLogs(t *testing.T) {
	log, _ := logged(logrus.InfoLevel)
	c, err := New(t.Context(), Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Name: "x",
		Namespace: "default", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if c.config.HookOutputFunc == nil || c.config.HookOutputFunc("", "", "") == nil {
		t.Error("there is nothing that takes the logs of a hook")
	}
}

// TestAnErrorIsNoMissingRelease: an API that cannot be asked does not say that there is nothing to uninstall.
func TestAnErrorIsNoMissingRelease(t *testing.T) {
	log, _ := logged(logrus.InfoLevel)
	c, err := New(t.Context(), Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Name: "x",
		Namespace: "default", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Uninstall(t.Context()); err == nil {
		t.Error("the release counts as uninstalled")
	}
}

// TestLogs: what Helm logs is in the server's log, and its last error is remembered whatever is logged.
func TestLogs(t *testing.T) {
	log, text := logged(logrus.InfoLevel)
	l := &logs{to: log}
	helm := slog.New(l)
	helm.Debug("uninstall: Failed to delete release", slog.Any("error", []error{errors.New("no such host")}))
	helm.Warn("skipping delete", "kind", "Service")
	if got := l.reason(); !strings.Contains(got, "no such host") {
		t.Errorf("remembered %q", got)
	}
	if got := text.String(); strings.Contains(got, "Failed to delete") || !strings.Contains(got, "kind=Service") {
		t.Errorf("logged %q", got)
	}
}

// TestNames: those that Helm takes.
func TestNames(t *testing.T) {
	for name, want := range map[string]bool{"web": true, "a.b": true, "": false, "Web": false, "a_b": false,
		strings.Repeat("a", 53): true, strings.Repeat("a", 54): false} {
		if err := CheckName(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
