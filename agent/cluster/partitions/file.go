package partitions

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// FileName is the file in the agent directory that holds the list.
const FileName = "partitions.json"

// recall takes over the list on disk. Without one that can be used the node waits for its
// servers: its pods are of partitions that nobody knows.
func (s *Source) recall() {
	path := filepath.Join(s.o.Dir, FileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var l joinapi.Partitions
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err == nil {
		err = s.use(l)
	}
	if err != nil {
		s.o.Log.WithError(err).Errorf("the list of partitions in %s cannot be used; no pod starts "+
			"until a server tells the partitions", path)
		s.current = nil
	}
}

// save writes a list. What cannot be written is told again at the next start.
func (s *Source) save(l joinapi.Partitions) {
	data, err := json.MarshalIndent(l, "", "  ")
	if err == nil {
		err = os.MkdirAll(s.o.Dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Update(filepath.Join(s.o.Dir, FileName), append(data, '\n'), 0o600)
	}
	if err != nil {
		s.o.Log.WithError(err).Error("the list of partitions cannot be written; after a restart this node waits " +
			"for a server to tell them")
	}
}
