package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// Record is what a server had at its last start, by the name of the flag.
type Record map[string]string

// file is that of the record in the directory of a server.
func file(dir string) string { return filepath.Join(dir, "settings.json") }

// Read returns the record of a server directory, nil if it has none: no server has begun in it, or one of a version
// that kept none.
func Read(dir string) (Record, error) {
	data, err := os.ReadFile(file(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r Record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && r == nil {
		err = errors.New("it has no settings")
	}
	if err != nil {
		return nil, &problem.Precondition{What: "file " + file(dir), Err: err,
			Fix: "restore it from a backup; or remove it, and start with the flags that the server has had so far"}
	}
	return r, nil
}

// Write keeps the settings of a server that has begun with them.
func Write(dir string, c *config.Server) error {
	r := Record{}
	for _, d := range compared() {
		r[d.name] = d.value(c)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Update(file(dir), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the settings that have to stay: %w", err)
	}
	return nil
}

// compared are the settings that the record has.
func compared() (out []decision) {
	for _, d := range decisions() {
		if d.rule == stays || d.rule == said {
			out = append(out, d)
		}
	}
	return out
}

// Check refuses settings other than those of the record. of names the partition, "" for a cluster of one.
func (r Record) Check(c *config.Server, of string) error {
	server := "the server"
	if of != "" {
		server = "this server of partition " + of
	}
	var errs []error
	for _, d := range compared() {
		had, known := r[d.name]
		given, has := c.Given(d.name), d.value(c)
		if !known || had == has || d.rule == said && given {
			continue
		}
		flag := config.Dashed(d.name)
		in := &problem.Input{Source: flag, Value: has,
			Err:  fmt.Errorf("%s has run with %q so far, and %s", server, had, d.why),
			Want: value(flag, had) + ", as at its first start"}
		if !given {
			in.Value, in.Err = "", fmt.Errorf("it is not given, which makes it %q; %s has run with %q so far, and %s",
				has, server, had, d.why)
		}
		if d.rule == said {
			in.Want = value(flag, had) + ", or the value that it is to change to"
			if d.name == "default-tenant" || d.name == "tenant-group" {
				in.Want += `, "" for none`
			}
		}
		errs = append(errs, in)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// value is a flag and its value as they are written.
func value(flag, v string) string {
	if v == "" {
		return flag + `=""`
	}
	return flag + " " + v
}
