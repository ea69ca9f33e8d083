package instance

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestIDIsPersistent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node", "id")
	first, err := ChooseNodeName("worker", true, file)
	if err != nil || !strings.HasPrefix(first, "worker-") {
		t.Fatalf("Choose = %q, %v", first, err)
	}
	if again, err := ChooseNodeName("worker", true, file); err != nil || again != first {
		t.Errorf("second Choose = %q, %v, want %q", again, err, first)
	}
}

func TestBadNameIsInput(t *testing.T) {
	var in *problem.Input
	if _, err := ChooseNodeName("Under_score", false, ""); !errors.As(err, &in) || in.Source != "--node-name" {
		t.Errorf("Choose = %v, want a problem.Input for --node-name", err)
	}
}
