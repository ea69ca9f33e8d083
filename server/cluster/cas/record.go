package cas

import (
	"encoding/json"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/cluster/replicated"
)

const (
	// recordKey has the CAs that all servers take at their next start.
	recordKey = "/a4s/authorities/next"
	// reportsPrefix begins the keys under which each member reports its CAs.
	reportsPrefix = "/a4s/authorities/servers/"
)

// report is what a server reports.
type report struct {
	// Running identifies the CAs that it works with, Next those of its next
	// start, if they are others.
	Running string `json:"running"`
	Next    string `json:"next,omitempty"`
}

// document is the CAs of the next start. From in its record identifies the CAs
// that these follow.
func document(c *replicated.Cluster) *replicated.Document[report] {
	return &replicated.Document[report]{
		Cluster: c, Subject: "the certificate authorities",
		Key: recordKey, Reports: reportsPrefix,
		Purpose: "a4s: certificate authorities, version 1",
		Hash: func(content []byte) string {
			files, err := decode(content)
			if err != nil {
				return ""
			}
			return pki.HashCAs(files)
		},
	}
}

func decode(content []byte) (files map[string][]byte, err error) {
	err = json.Unmarshal(content, &files)
	return files, err
}
