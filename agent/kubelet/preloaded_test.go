package kubelet

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"

	"github.com/a4s-io/a4s/agent/kubelet/settings"
)

// manager is upstream's, of a kubelet that starts with what is on the disk.
func manager(t *testing.T, dataDir string) *pullmanager.PullManager {
	t.Helper()
	records, err := pullmanager.NewFSPullRecordsAccessor(klog.Logger{}, settings.RootDir(dataDir))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := pullmanager.NewImagePullCredentialVerificationPolicy(kubeletconfig.NeverVerifyPreloadedImages, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pullmanager.NewImagePullManager(t.Context(), records, policy, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPreloadedImagesBelongToNobody: a pod that pulls a preloaded image, or the same content under
// another name, takes it from no other pod, whose tenant may be another.
func TestPreloadedImagesBelongToNobody(t *testing.T) {
	const id = "sha256:7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730"
	without := func(context.Context) pullmanager.GetPodCredentials {
		return func() ([]kubeletconfig.ImagePullSecret, *kubeletconfig.ImagePullServiceAccount, error) {
			return nil, nil, nil
		}
	}
	pulls := func(m *pullmanager.PullManager, name string) bool {
		must, err := m.MustAttemptImagePull(t.Context(), name, id, without(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		return must
	}
	secret := &kubeletconfig.ImagePullCredentials{KubernetesSecrets: []kubeletconfig.ImagePullSecret{{
		UID: "u", Namespace: "n", Name: "s", CredentialHash: "h"}}}
	for _, recorded := range []bool{false, true} {
		dir := t.TempDir()
		if recorded {
			for range 2 { // as at two starts
				if err := RecordPreloaded(dir, map[string]string{"docker.io/library/web:1": id,
					"registry.example.com/x:1": id}); err != nil {
					t.Fatal(err)
				}
			}
		}
		m := manager(t, dir)
		for _, name := range []string{
			"web:1", "docker.io/library/web:1", "docker.io/web", "registry.example.com/x:1",
		} {
			if pulls(m, name) {
				t.Errorf("recorded %v: %s has to be pulled before anybody did", recorded, name)
			}
		}
		// The kubelet frees space: it says which images are left but for those that are pinned or in use.
		m.PruneUnknownRecords(t.Context(), nil, time.Now().Add(time.Hour))
		// Somebody pulls the name, which does not end.
		if err := m.RecordPullIntent(klog.Logger{}, "web:1"); err != nil {
			t.Fatal(err)
		}
		if got := pulls(m, "web:1"); got == recorded {
			t.Errorf("recorded %v: it has to be pulled while somebody pulls: %v", recorded, got)
		}
		m.RecordImagePullFailed(t.Context(), "web:1")
		// Somebody has pulled it under another name, and with a Secret under its own.
		for _, name := range []string{"other.example.com/y:1", "web:1"} {
			if err := m.RecordPullIntent(klog.Logger{}, name); err != nil {
				t.Fatal(err)
			}
			m.RecordImagePulled(t.Context(), name, id, secret)
		}
		for _, name := range []string{"web:1", "docker.io/library/web:1"} {
			if got := pulls(m, name); got == recorded {
				t.Errorf("recorded %v: %s has to be pulled after somebody did: %v", recorded, name, got)
			}
		}
		if !pulls(m, "other.example.com/y:1") {
			t.Errorf("recorded %v: what was pulled with a Secret is everybody's", recorded)
		}
		files, err := filepath.Glob(filepath.Join(settings.RootDir(dir), "image_manager", "pulled", "*"))
		if err != nil || len(files) != 1 {
			t.Errorf("recorded %v: %v, %v", recorded, files, err)
		}
	}
}
