package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxFunctions is how many functions of a vulnerability are named.
const maxFunctions = 5

// vulnerability is what all programs together have of one.
type vulnerability struct {
	id, summary string
	// module is its path and version, fixed the first version without it.
	module, fixed string
	// functions are in a program, with the program's name.
	functions []string
}

// database is where the vulnerabilities are read from: a mirror, or Go's own.
func database() string {
	if db := os.Getenv("GOVULNDB"); db != "" {
		return db
	}
	return "https://vuln.go.dev"
}

// reachable returns an error if the database does not answer.
func reachable(ctx context.Context) error {
	db, err := url.Parse(database())
	if err != nil {
		return fmt.Errorf("GOVULNDB: %w", err)
	}
	if db.Scheme == "file" {
		_, err := os.Stat(filepath.Join(db.Path, "index", "db.json"))
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimSuffix(database(), "/")+"/index/db.json", nil)
	if err != nil {
		return fmt.Errorf("GOVULNDB: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the database of vulnerabilities cannot be reached: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the database of vulnerabilities, %s, answers %s", request.URL, answer.Status)
	}
	return nil
}

// message is the part of govulncheck's messages that matters here.
type message struct {
	OSV *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
	} `json:"osv"`
	Finding *struct {
		OSV          string `json:"osv"`
		FixedVersion string `json:"fixed_version"`
		Trace        []struct {
			Module   string `json:"module"`
			Version  string `json:"version"`
			Package  string `json:"package"`
			Function string `json:"function"`
			Receiver string `json:"receiver"`
		} `json:"trace"`
	} `json:"finding"`
}

// scanner is the folder of the module that names govulncheck's version.
func scanner(ctx context.Context) (string, error) {
	here, err := goCommand(ctx, "list", "-f", "{{.Dir}}", "github.com/a4s-io/a4s/scripts/vulncheck")
	return filepath.Join(string(bytes.TrimSpace(here)), "govulncheck"), err
}

// scan adds what is in a program to found.
func scan(ctx context.Context, scanner, program string, found map[string]*vulnerability) error {
	path, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	out, err := goCommand(ctx, "-C", scanner, "tool", "govulncheck", "-db", database(), "-format", "json",
		"-mode", "binary", path)
	if err != nil {
		return err
	}
	return read(bytes.NewReader(out), filepath.Base(program), found)
}

// goCommand runs go without the build settings of a4s.
func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// read adds the findings in what govulncheck said to found.
func read(messages io.Reader, program string, found map[string]*vulnerability) error {
	summaries := map[string]string{}
	d := json.NewDecoder(messages)
	for {
		var m message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("reading what govulncheck said: %w", err)
		}
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		at := m.Finding.Trace[0]
		v := found[m.Finding.OSV]
		if v == nil {
			v = &vulnerability{id: m.Finding.OSV, module: at.Module + "@" + at.Version, fixed: m.Finding.FixedVersion}
			found[v.id] = v
		}
		if at.Function == "" {
			continue
		}
		name := at.Function
		if at.Receiver != "" {
			name = at.Receiver + "." + name
		}
		name = fmt.Sprintf("%s.%s (%s)", at.Package, name, program)
		if len(v.functions) < maxFunctions && !slices.Contains(v.functions, name) {
			v.functions = append(v.functions, name)
		}
	}
	for id, v := range found {
		if s := summaries[id]; s != "" {
			v.summary = s
		}
	}
	return nil
}
