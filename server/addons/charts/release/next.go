package release

import (
	"strconv"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	"helm.sh/helm/v4/pkg/release/common"
)

// HashLabel is the label of a release that says what it was made from. It is that of k3s.
const HashLabel = "helmcharts.helm.cattle.io/configHash"

// Revision is what is known of the last revision of a release. Its zero value is that of none.
type Revision struct {
	Number int
	Status string
	// Hash is what the release was made from.
	Hash string
	// Interrupted says that it failed because whoever worked on it ended, not for what is in the chart.
	Interrupted bool
}

// Latest is the last revision among those with these labels.
func Latest(labels []map[string]string) Revision {
	var last Revision
	for _, l := range labels {
		if n, err := strconv.Atoi(l["version"]); err == nil && n > last.Number {
			last = Revision{Number: n, Status: l["status"], Hash: l[HashLabel],
				Interrupted: l[interruptedLabel] != ""}
		}
	}
	return last
}

// Step is what to do with a release.
type Step int

const (
	// Nothing is to do: the release is as it should be.
	Nothing Step = iota
	// Apply makes a release, or another revision of it.
	Apply
	// Resume marks the last revision as interrupted, and makes another one.
	Resume
	// Reinstall uninstalls the release, and makes it anew.
	Reinstall
	// GiveUp leaves a failed release for somebody to look at.
	GiveUp
)

// Next says what to do about a release that is to be made from hash.
func Next(last Revision, hash string, policy helmv1.FailurePolicy) Step {
	switch status := common.Status(last.Status); {
	case last.Number == 0:
		return Apply
	case status.IsPending():
		// One server at a time works on releases, and on each of them once: whoever began is gone.
		return Resume
	case status == common.StatusDeployed && last.Hash == hash:
		return Nothing
	case status == common.StatusUninstalling, status == common.StatusUninstalled:
		return Reinstall
	case status != common.StatusFailed || last.Interrupted:
		return Apply
	case policy == helmv1.FailurePolicyRetry && last.Hash != hash:
		return Apply
	case policy == helmv1.FailurePolicyRetry, policy == helmv1.FailurePolicyAbort:
		return GiveUp
	default:
		return Reinstall
	}
}
