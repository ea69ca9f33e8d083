//go:build linux

package payload

import "embed"

const archiveDir = "archive/arm64/"

//go:embed archive/arm64
var carried embed.FS
