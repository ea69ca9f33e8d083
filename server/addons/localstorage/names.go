package localstorage

import (
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/space"
)

const (
	// Provisioner is the name in StorageClasses.
	Provisioner = "a4s.io/local-path"
	// State is the annotation of a volume that says what its node did.
	State = "a4s.io/local-volume"
	// Made and Removed are values of State.
	Made    = "made"
	Removed = "removed"
	// ProvisionedBy is the annotation by which upstream and the library know
	// whose a volume is.
	ProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// Finalizer is the library's: it keeps a volume until its directory is
	// gone.
	Finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

	// maxName is the longest name of a file.
	maxName = 255
)

// volumeName is the composite name of the volume for a claim: one of the
// claim's own space.
func volumeName(claim *corev1.PersistentVolumeClaim) string {
	tenant, _ := space.SplitNamespace(claim.Namespace)
	return space.ClusterName(tenant, "pvc-"+string(claim.UID))
}

// directory is the name of a volume's directory: it tells people whose it is.
// Its first part alone makes it unique.
func directory(volume string, claim *corev1.PersistentVolumeClaim) string {
	name := volume + "_" + claim.Namespace + "_" + claim.Name
	return name[:min(len(name), maxName)]
}

// Ours reports whether a volume is one of this provisioner, whoever says so.
func Ours(volume *corev1.PersistentVolume) bool {
	if volume.Annotations[ProvisionedBy] != Provisioner || volume.Spec.Local == nil {
		return false
	}
	path := volume.Spec.Local.Path
	return filepath.IsAbs(path) && filepath.Clean(path) == path &&
		strings.HasPrefix(filepath.Base(path), volume.Name+"_")
}

// nodeOf is the node that has the directory.
func nodeOf(volume *corev1.PersistentVolume) string {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return ""
	}
	term := affinity.Required.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 1 || len(term.MatchFields) > 0 {
		return ""
	}
	e := term.MatchExpressions[0]
	if e.Key != corev1.LabelHostname || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 {
		return ""
	}
	return e.Values[0]
}

func nodeAffinity(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname,
			Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
}
