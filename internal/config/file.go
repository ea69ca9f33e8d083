package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/a4s-io/a4s/internal/problem"
)

// maxFileSize bounds a configuration file; anything larger is not one.
const maxFileSize = 1 << 20

// entry is one key of a configuration file.
type entry struct {
	key     string // without "+"
	appends bool
	isList  bool
	values  []string
	file    string
	line    int
	written string // with "+", as it stands in the file
}

// source names the entry for error messages.
func (e *entry) source() string {
	return fmt.Sprintf("%s:%d: key %q", e.file, e.line, e.written)
}

// readFiles returns the entries of path and of the files in path.d, in order.
// path may be missing unless mustExist is set.
func readFiles(path string, mustExist bool) ([]entry, error) {
	main, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !mustExist {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	dropIns, err := listDropIns(path + ".d")
	if err != nil {
		return nil, err
	}
	for _, p := range dropIns {
		more, err := readFile(p)
		if err != nil {
			return nil, err
		}
		main = append(main, more...)
	}
	return main, nil
}

func listDropIns(dir string) ([]string, error) {
	found, err := os.ReadDir(dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &problem.Input{Source: dir, Err: problem.WithoutPath(err), Want: "a directory that can be read"}
	}
	var paths []string
	for _, f := range found {
		if ext := filepath.Ext(f.Name()); ext == ".yaml" || ext == ".yml" {
			paths = append(paths, filepath.Join(dir, f.Name()))
		}
	}
	return paths, nil
}

func readFile(path string) ([]entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &problem.Input{Source: path, Err: problem.WithoutPath(err),
			Want: "a configuration file that can be read"}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, &problem.Input{Source: path, Err: problem.WithoutPath(err),
			Want: "a configuration file that can be read"}
	}
	return parseFile(path, data)
}

// parseFile turns the text of a configuration file into entries.
func parseFile(path string, data []byte) ([]entry, error) {
	const want = `YAML with one "key: value" per setting`
	if len(data) > maxFileSize {
		return nil, &problem.Input{Source: path, Err: fmt.Errorf("larger than %d bytes", maxFileSize), Want: want}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // empty, or nothing but comments
	} else if err != nil {
		return nil, &problem.Input{Source: path, Err: err, Want: want}
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, &problem.Input{Source: fmt.Sprintf("%s:%d", path, second.Line),
			Err: errors.New("a second document"), Want: "one document"}
	} else if !errors.Is(err, io.EOF) {
		return nil, &problem.Input{Source: path, Err: err, Want: want}
	}
	root := resolve(&doc)
	if root.Kind == yaml.DocumentNode {
		if len(root.Content) == 0 {
			return nil, nil
		}
		root = resolve(root.Content[0])
	}
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, &problem.Input{Source: fmt.Sprintf("%s:%d", path, root.Line),
			Err: errors.New("not a mapping"), Want: want}
	}
	var out []entry
	lineOf := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		e, err := parseEntry(path, resolve(root.Content[i]), resolve(root.Content[i+1]))
		if err != nil {
			return nil, err
		}
		if line, ok := lineOf[e.written]; ok {
			return nil, &problem.Input{Source: e.source(), Err: fmt.Errorf("already given in line %d", line),
				Want: "each key once"}
		}
		lineOf[e.written] = e.line
		out = append(out, e)
	}
	return out, nil
}

func parseEntry(path string, key, value *yaml.Node) (entry, error) {
	e := entry{file: path, line: key.Line}
	if key.Kind != yaml.ScalarNode {
		return e, &problem.Input{Source: fmt.Sprintf("%s:%d", path, key.Line),
			Err: errors.New("a key that is not text"), Want: "the name of a setting"}
	}
	e.written = key.Value
	e.key, e.appends = strings.CutSuffix(key.Value, "+")
	items := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		e.isList = true
		items = value.Content
	}
	for _, item := range items {
		item = resolve(item)
		switch {
		case item.Kind != yaml.ScalarNode:
			return e, &problem.Input{Source: e.source(), Err: fmt.Errorf("a nested value in line %d", item.Line),
				Want: "text, a number, true, false, or a list of them"}
		case item.Tag == "!!null":
			return e, &problem.Input{Source: e.source(), Err: ErrNoValue, Want: `a value; "" for an empty one`}
		}
		// The text as written, so that 0644 stays 0644.
		e.values = append(e.values, item.Value)
	}
	return e, nil
}

// resolve follows an alias. An alias cannot point to itself: the parser sees
// to it that its anchor ended before.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}
