package cas

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// staged is the file with the CAs of the next start.
type staged struct {
	From  string            `json:"from"`
	Hash  string            `json:"hash"`
	Files map[string][]byte `json:"files"`
}

// TakeOver puts the fetched CAs into dir before a server uses it; the
// former files go to backup. A file that is damaged or does not follow what dir
// has is removed: the CAs in the datastore are fetched again.
func TakeOver(dir, path, backup string, log *logrus.Entry) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	bad := func(err error) error {
		return &problem.Precondition{What: "new certificate authorities in " + path, Err: err,
			Fix: "remove the file to start with the CAs of before; it is fetched again"}
	}
	if err != nil {
		return bad(err)
	}
	have, err := pki.ReadCAs(dir)
	if err != nil {
		return bad(err)
	}
	var next staged
	if err := json.Unmarshal(data, &next); err != nil {
		log.WithError(err).Warnf("%s is damaged, so the new certificate authorities have to be fetched again", path)
		return os.Remove(path)
	}
	switch now := pki.HashCAs(have); {
	case now == next.Hash: // the last start ended here
	case now != next.From:
		log.Warnf("%s is not taken: the certificate authorities have been changed since", path)
	default:
		if err := pki.Take(dir, backup, next.Files, time.Now()); err != nil {
			return bad(err)
		}
		log.Infof("Works with the new certificate authorities from now on; the files before are in %s", backup)
	}
	return os.Remove(path)
}
