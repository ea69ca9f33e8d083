//go:build linux

package payload

import "embed"

const archiveDir = "archive/amd64/"

//go:embed archive/amd64
var carried embed.FS
