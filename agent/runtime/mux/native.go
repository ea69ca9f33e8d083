package mux

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// rewriter gives the containers of tenants native host names.
//
// A pod with a subdomain has a fully qualified name, which the kubelet
// composes of the pod's namespace and writes to /etc/hosts, and on demand uses
// as the host name. No field of a pod can say otherwise, so it is changed on
// the way to the runtime. Nothing is changed for pods of the system space.
type rewriter struct {
	kubeletDir string
	domain     atomic.Pointer[string]
}

func (w *rewriter) setDomain(domain string) { w.domain.Store(&domain) }

// sandbox puts the native host name into the configuration of a new sandbox
// and reports whether that changed it.
func (w *rewriter) sandbox(config *runtimeapi.PodSandboxConfig) bool {
	composite, native, ok := w.domains(config)
	if !ok || !strings.HasSuffix(config.Hostname, composite) {
		return false
	}
	config.Hostname = strings.TrimSuffix(config.Hostname, composite) + native
	return true
}

// container puts native names into the hosts file of a new container. The
// kubelet has just written it.
func (w *rewriter) container(request []byte) error {
	// Most containers are of pods whose names stay; their configuration is
	// large and need not be read for that.
	metadata := &runtimeapi.PodSandboxMetadata{}
	if err := unmarshal(field(field(request, 3), 1), metadata); err != nil {
		return err
	}
	composite, native, ok := w.domains(&runtimeapi.PodSandboxConfig{Metadata: metadata})
	if !ok {
		return nil
	}
	var r runtimeapi.CreateContainerRequest
	if err := unmarshal(request, &r); err != nil {
		return err
	}
	file := filepath.Join(w.kubeletDir, "pods", metadata.Uid, "etc-hosts")
	for _, m := range r.GetConfig().GetMounts() {
		if m.HostPath != file {
			continue
		}
		content, err := readHosts(file)
		if errors.Is(err, errLarge) {
			continue // nothing is lost but the native name
		}
		if err != nil {
			return fmt.Errorf("hosts file of a pod: %w", err)
		}
		if projected := bytes.ReplaceAll(content, []byte(composite),
			[]byte(native)); !bytes.Equal(projected, content) {
			// In place, as the kubelet does: other containers have it mounted.
			if err := os.WriteFile(file, projected, 0o644); err != nil {
				return fmt.Errorf("hosts file of a pod: %w", err)
			}
		}
	}
	return nil
}

// maxHosts is how large a hosts file may be to be changed. What the kubelet writes is some hundred bytes,
// and the host aliases of the pod.
const maxHosts = 1 << 20

var (
	// errHosts is a file that the kubelet has not written so.
	errHosts = errors.New("not a file that the kubelet writes")
	// errLarge is one that is larger than maxHosts.
	errLarge = errors.New("too large to be looked through")
)

// readHosts reads a hosts file. Containers of the pod that run already have it mounted, and may have
// made of it what they like.
func readHosts(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: it is no regular file", file, errHosts)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxHosts+1))
	if err == nil && len(content) > maxHosts {
		err = fmt.Errorf("%s: %w", file, errLarge)
	}
	return content, err
}

// domains returns the end of the pod's qualified name, as the kubelet composes
// it and as it should be; false for pods of the system space.
func (w *rewriter) domains(config *runtimeapi.PodSandboxConfig) (composite, native string, ok bool) {
	domain := w.domain.Load()
	if domain == nil {
		return "", "", false
	}
	namespace := config.GetMetadata().GetNamespace()
	tenant, nativeNamespace := space.SplitNamespace(namespace)
	end := ".svc." + *domain
	return "." + namespace + end, "." + nativeNamespace + end, !space.IsSystem(tenant)
}
