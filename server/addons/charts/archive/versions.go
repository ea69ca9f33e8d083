package archive

import (
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// exact reports whether it is one version, not a range.
func exact(version string) bool {
	_, err := semver.NewVersion(version)
	return err == nil
}

// versions are those that tags stand for, the newest first.
func versions(tags []string) []string {
	var all []*semver.Version
	for _, tag := range tags {
		if v, err := semver.StrictNewVersion(strings.ReplaceAll(tag, "_", "+")); err == nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *semver.Version) int { return b.Compare(a) })
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = v.String()
	}
	return out
}
