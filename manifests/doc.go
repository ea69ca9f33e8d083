// Package manifests carries the YAML that a server applies at its start.
//
// Invariants: the files hold only objects, in server-side-apply form, with
// the few values that depend on the cluster as Go template fields of
// server/deploy.Values; an object that leaves a file is deleted by hand or by
// a later release, never silently.
//
// server/deploy imports it.
package manifests

import "embed"

// FS holds the YAML files by name.
//
//go:embed *.yaml
var FS embed.FS
