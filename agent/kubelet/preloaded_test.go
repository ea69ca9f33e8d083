package kubelet

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"

	"github.com/a4s-io/a4s/agent/kubelet/settings"
	"github.com/a4s-io/a4s/internal/logging"
)

// manager is upstream's, of a kubelet that starts with what is on the disk, and keeps it in memory.
func manager(t *testing.T, dataDir string) *pullmanager.PullManager {
	t.Helper()
	records, err := pullmanager.NewFSPullRecordsAccessor(klog.Background(), settings.RootDir(dataDir))
	if err != nil {
		t.Fatal(err)
	}
	records = pullmanager.NewCachedPullRecordsAccessor(klog.Background(), records, 20, 550, 10)
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

// mustPull says whether a pod without credentials has to pull an image that is there.
func mustPull(t *testing.T, m *pullmanager.PullManager, name, id string) bool {
	t.Helper()
	must, err := m.MustAttemptImagePull(t.Context(), name, id,
		func() ([]kubeletconfig.ImagePullSecret, *kubeletconfig.ImagePullServiceAccount, error) {
			return nil, nil, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return must
}

// withSecret is what somebody's pod pulled an image with.
func withSecret() *kubeletconfig.ImagePullCredentials {
	return &kubeletconfig.ImagePullCredentials{KubernetesSecrets: []kubeletconfig.ImagePullSecret{{
		UID: "u", Namespace: "n", Name: "s", CredentialHash: "h"}}}
}

// TestPreloadedImagesBelongToNobody: a pod that pulls a preloaded image, or the same content under
// another name, takes it from no other pod, whose tenant may be another.
func TestPreloadedImagesBelongToNobody(t *testing.T) {
	const id = "sha256:7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730"
	pulls := func(m *pullmanager.PullManager, name string) bool {
		t.Helper()
		return mustPull(t, m, name, id)
	}
	for _, recorded := range []bool{false, true} {
		dir := t.TempDir()
		if recorded {
			for range 2 { // as at two starts
				if _, err := RecordPreloaded(dir, map[string]string{"docker.io/library/web:1": id,
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
			m.RecordImagePulled(t.Context(), name, id, withSecret())
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
		files = slices.DeleteFunc(files, func(path string) bool { return filepath.Base(path) == notARecord })
		if err != nil || len(files) != 1 {
			t.Errorf("recorded %v: %v, %v", recorded, files, err)
		}
	}
}

// TestImagesThatComeLaterBelongToNobody: the kubelet that runs goes by what is recorded meanwhile.
func TestImagesThatComeLaterBelongToNobody(t *testing.T) {
	const web, other = "sha256:7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
		"sha256:8d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730"
	dir := t.TempDir()
	record := func(name, id string, want ...string) {
		t.Helper()
		known, err := RecordPreloaded(dir, map[string]string{name: id})
		if err != nil || !slices.Equal(known, want) {
			t.Fatalf("recording %s: %v, %v, want %v", name, known, err, want)
		}
	}
	record("docker.io/a4s/pause:1", "sha256:1") // before the kubelet starts
	m := manager(t, dir)
	// Somebody has pulled one image before its archive comes.
	m.RecordImagePulled(t.Context(), "other:1", other, withSecret())
	record("docker.io/library/web:1", web)
	record("docker.io/library/web:1", web)
	record("docker.io/library/other:1", other, "docker.io/library/other:1")
	// Somebody pulls the name, which does not end, and has pulled the content under another.
	if err := m.RecordPullIntent(klog.Logger{}, "web:1"); err != nil {
		t.Fatal(err)
	}
	if mustPull(t, m, "web:1", web) {
		t.Error("it has to be pulled while somebody pulls")
	}
	m.RecordImagePulled(t.Context(), "stolen:1", web, withSecret())
	if mustPull(t, m, "web:1", web) || !mustPull(t, m, "stolen:1", web) {
		t.Error("it has to be pulled after somebody did, or what was pulled with a Secret is everybody's")
	}
	m.RecordImagePullFailed(t.Context(), "web:1")
	m.PruneUnknownRecords(t.Context(), nil, time.Now().Add(time.Hour))
	again := manager(t, dir)
	for name, id := range map[string]string{"web:1": web, "other:1": other} {
		if mustPull(t, again, name, id) {
			t.Errorf("%s has to be pulled after the next start", name)
		}
	}
}

// TestNotARecordIsNotSaid: upstream logs the file that is no record, and nothing is wrong with it.
func TestNotARecordIsNotSaid(t *testing.T) {
	var out bytes.Buffer
	if _, err := logging.Setup(logging.Options{Output: &out}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := RecordPreloaded(dir, nil); err != nil {
		t.Fatal(err)
	}
	ctx := klog.NewContext(t.Context(), klog.Background())
	manager(t, dir).PruneUnknownRecords(ctx, nil, time.Now())
	if out.Len() != 0 {
		t.Errorf("the log of a start, and of a kubelet that frees space, is\n%s", out.String())
	}
	if _, err := logging.Setup(logging.Options{Output: &out, Debug: true}); err != nil {
		t.Fatal(err)
	}
	manager(t, dir).PruneUnknownRecords(ctx, nil, time.Now())
	if !strings.Contains(out.String(), notARecord) {
		t.Error("upstream does not say that it cannot read the file, so that its memory is complete to it")
	}
}
