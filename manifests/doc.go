// Package manifests carries the YAML that a server applies at its start.
//
// Invariants: the files hold only objects, in server-side-apply form, with
// the few values that depend on the cluster as Go template fields of
// server/addons/deploy.Values; what leaves a file is deleted from clusters, so a file
// that has nothing to bring any more stays, with a comment in it; the name of
// each file is a value of --disable (internal/config.Addons).
//
// server/addons/deploy imports it.
package manifests

import "embed"

// FS holds the YAML files by name.
//
//go:embed *.yaml
var FS embed.FS
