package kubelet

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"

	"github.com/a4s-io/a4s/agent/kubelet/settings"
)

// notARecord is a file among the records of the kubelet that is none. A kubelet that cannot read all of
// them at its start does not take its memory of them for complete: it looks for those that it does not
// know among the files, where RecordPreloaded puts some while it runs.
const (
	notARecord     = "sha256-not-a-record-of-a4s"
	notARecordText = "This is no record, so that the kubelet looks for the records that a4s writes while it runs.\n"
)

// RecordPreloaded says that every pod of the node may use images that came from files: it takes their
// names and ids. The kubelet lets every pod use an image of which it has no record; but it makes one
// when somebody's pod pulls the same content under another name, or while one pulls the same name. The
// image would then be nobody's but theirs (kubernetes#138175).
//
// It returns the names of images whose content had a record before that did not say so: a kubelet that
// runs goes by what it knows of that record until it starts again.
func RecordPreloaded(dataDir string, ids map[string]string) (known []string, err error) {
	root := settings.RootDir(dataDir)
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("making a directory for the kubelet: %w", err)
	}
	var log klog.Logger // nobody's
	records, err := pullmanager.NewFSPullRecordsAccessor(log, root)
	if err != nil {
		return nil, fmt.Errorf("opening the kubelet's records of images: %w", err)
	}
	none := filepath.Join(root, "image_manager", "pulled", notARecord)
	if err := os.WriteFile(none, []byte(notARecordText), 0o600); err != nil {
		return nil, fmt.Errorf("having the kubelet look at its records of images: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		before, err := recordPreloaded(records, log, name, ids[name])
		if err != nil {
			return nil, fmt.Errorf("recording that all pods may use the image %s: %w", name, err)
		}
		if before {
			known = append(known, name)
		}
	}
	return known, nil
}

// recordPreloaded records one image, and says whether there was a record of its content that did not
// say so.
func recordPreloaded(records pullmanager.PullRecordsAccessor, log klog.Logger, name, id string) (bool, error) {
	// When the kubelet frees space it forgets the records of images that it does not think of removing,
	// pinned ones and those in use, if they are older than that moment. This one never is.
	never := metav1.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return false, err
	}
	record, _, err := records.GetImagePulledRecord(id)
	before := err == nil && record != nil
	if !before { // one that cannot be read is made anew
		record = &kubeletconfig.ImagePulledRecord{ImageRef: id}
	}
	if record.CredentialMapping == nil {
		record.CredentialMapping = map[string]kubeletconfig.ImagePullCredentials{}
	}
	changed := !record.LastUpdatedTime.Equal(&never)
	for _, repository := range spellings(named) {
		if !record.CredentialMapping[repository].NodePodsAccessible {
			record.CredentialMapping[repository] = kubeletconfig.ImagePullCredentials{NodePodsAccessible: true}
			changed = true
		}
	}
	if !changed {
		return false, nil
	}
	record.LastUpdatedTime = never
	return before, records.WriteImagePulledRecord(log, record)
}

// spellings are the ways in which pods can write the repository of an image: the kubelet compares
// their text, in which Docker Hub can be left out.
func spellings(named reference.Named) []string {
	const hub = "docker.io"
	path := reference.Path(named)
	if reference.Domain(named) != hub {
		return []string{named.Name()}
	}
	short, official := strings.CutPrefix(path, "library/")
	var out []string
	for _, domain := range []string{"", hub + "/", "index." + hub + "/"} {
		out = append(out, domain+path)
		if official {
			out = append(out, domain+short)
		}
	}
	return out
}
