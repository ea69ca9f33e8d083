package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

// extension is that of pods. Files that are being written have another one.
const extension = ".json"

// file is what is on disk of a pod.
type file struct {
	Pod             *corev1.Pod `json:"pod"`
	Persisted       bool        `json:"persisted"`
	ServerUID       types.UID   `json:"serverUID,omitempty"`
	ResourceVersion string      `json:"resourceVersion,omitempty"`
}

func (s *Store) path(uid types.UID) string { return filepath.Join(s.dir, string(uid)+extension) }

func (s *Store) write(e *Entry) error {
	data, err := json.Marshal(file{Pod: e.Pod, Persisted: e.State != Local, ServerUID: e.ServerUID,
		ResourceVersion: e.ResourceVersion})
	if err != nil {
		return fmt.Errorf("encoding a pod: %w", err)
	}
	// Environment variables hold secrets at times.
	return atomicfile.Write(s.path(e.Pod.UID), append(data, '\n'), 0o600)
}

func readFile(path string) (*Entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	switch {
	case f.Pod == nil || f.Pod.Name == "" || f.Pod.Namespace == "" || len(f.Pod.Spec.Containers) == 0:
		return nil, errors.New("it holds no pod")
	case string(f.Pod.UID) != strings.TrimSuffix(filepath.Base(path), extension):
		return nil, fmt.Errorf("it holds a pod with the UID %q", f.Pod.UID)
	}
	e := &Entry{Pod: f.Pod, ServerUID: f.ServerUID, ResourceVersion: f.ResourceVersion}
	if f.Persisted {
		e.State = Persisted
	}
	return e, nil
}
