package supportbundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/internal/problem"
)

// Run writes a bundle and says what is in it and what is not. That something cannot be had, a
// server that does not run above all, is no error.
func Run(ctx context.Context, run *cmd.SupportBundle) error {
	return bundle{machine: thisMachine(), now: time.Now(), api: func(cfg *rest.Config) (api, error) {
		return newServer(cfg)
	}}.run(ctx, run)
}

// bundle is where what is taken comes from; tests replace it.
type bundle struct {
	machine machine
	now     time.Time
	api     func(cfg *rest.Config) (api, error)
}

func (b bundle) run(ctx context.Context, run *cmd.SupportBundle) (err error) {
	dir := "a4s-support-" + b.now.UTC().Format("20060102-150405")
	file := run.Output
	if file == "" {
		file = dir + ".tar.gz"
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &problem.Input{Source: "--output", Value: file, Err: problem.WithoutPath(err),
			Want: "a file that does not exist"}
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	counted := &counter{to: f}
	out := newArchive(counted, dir, b.now, newScrubber(append(secretsOf(run.Local), secretsOfConfig(run.Config)...)))
	limited, cancel := context.WithTimeout(ctx, run.Timeout)
	defer cancel()
	b.fill(limited, out, run)
	if err := context.Cause(ctx); err != nil {
		return err // it was interrupted; a timeout is no reason not to have what there is
	}
	contents := b.contents(out, run)
	if err := out.close(contents); err != nil {
		return err
	}
	_, err = problem.Show(run.Out, "%s\n%s is written: %s, %d KiB\n", problem.Lines(strings.TrimSpace(contents)), file,
		problem.Number(out.files, "file"), (counted.n+1023)/1024)
	return err
}

// fill takes first what this machine has, as the API may answer late or not at all, and last what can be much.
func (b bundle) fill(ctx context.Context, out *archive, run *cmd.SupportBundle) {
	for _, file := range settingsFiles(run.Local) {
		text, err := settings(file)
		if err != nil {
			out.omit("settings/%s: %v", filepath.Base(file), problem.WithoutPath(err))
			continue
		}
		out.add("settings/"+filepath.Base(file), []byte(text))
	}
	b.machine.logs(ctx, out, run.Local)
	for _, r := range run.Reports {
		said, err := r.Ask(ctx)
		if err != nil {
			out.omit("%s.json: %v", r.Name, err)
			continue
		}
		data, err := json.MarshalIndent(said, "", "  ")
		if err != nil {
			out.omit("%s.json: %v", r.Name, err)
			continue
		}
		out.add(r.Name+".json", append(data, '\n'))
	}
	if run.Config == nil {
		out.omit("objects: %v", run.NoConfig)
		return
	}
	server, err := b.api(run.Config)
	if err != nil {
		out.omit("objects: %v", err)
		return
	}
	for _, check := range []string{"readyz", "livez"} {
		data, err := server.Get(ctx, "/"+check, url.Values{"verbose": {""}})
		out.add(check+".txt", data) // if it is not ready, too
		var refused refusal
		if err != nil && !errors.As(err, &refused) {
			out.omit("%s.txt and all objects: %v", check, err)
			return
		}
	}
	from, err := newObjects(server, out, run.ConfigMaps)
	if err != nil {
		out.omit("objects: %v", err)
		return
	}
	from.take(ctx, run.Tenant)
}

// never is what no bundle has.
func never(run *cmd.SupportBundle) []string {
	out := []string{
		"Secrets, custom resources, and other kinds than those in the directory objects",
		"annotations, values of environment variables, commands and arguments of containers, what containers " +
			"wrote, and other text in objects that may be secret: only how long it is",
		"kubeconfigs, tokens, keys, registries.yaml, the environment of the service, the datastore, the audit log, " +
			"logs of containers",
	}
	if !run.ConfigMaps {
		out = append(out, "data of ConfigMaps: only how long it is (--config-maps takes it)")
	}
	if run.Tenant == "" {
		return append(out, "objects in the spaces of tenants (--tenant takes those of one)")
	}
	return append(out, "objects in the spaces of other tenants than "+run.Tenant)
}

// contents is what the bundle says of itself.
func (b bundle) contents(out *archive, run *cmd.SupportBundle) string {
	var text strings.Builder
	fmt.Fprintf(&text, "a4s support bundle of %s\n\nNever in it:\n", b.now.UTC().Format(time.RFC3339))
	list := func(lines []string) {
		for _, line := range lines {
			fmt.Fprintf(&text, "- %s\n", strings.ReplaceAll(line, "\n", " "))
		}
	}
	list(never(run))
	if len(out.omitted) > 0 {
		text.WriteString("\nNot in it this time:\n")
		list(slices.Compact(out.omitted))
	}
	text.WriteString("\nNames, labels, addresses, images and logs are in it. What looks like a secret is taken out " +
		"of logs, but nothing\nknows what programs write: look at it before you give it to others.\n")
	return text.String()
}

// counter counts what is written.
type counter struct {
	to io.Writer
	n  int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
