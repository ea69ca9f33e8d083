package cmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// encryptionPoll is how often a change of the encryption is asked about.
const encryptionPoll = 500 * time.Millisecond

func secretsEncryptCommand() *cli.Command {
	change := func(a joinapi.EncryptionAction, usage, description string, aliases ...string) *cli.Command {
		return leaf(&cli.Command{
			Name:        string(a),
			ArgsUsage:   "[FLAGS]",
			Usage:       usage,
			Aliases:     aliases,
			Description: description,
			Action:      action(func(c *call) error { return changeEncryption(c, a) }),
		},
			kubeconfigFlag(),
		)
	}
	return group(&cli.Command{
		Name:  "secrets-encrypt",
		Usage: "encrypt the Secrets of the system and of all tenants in the datastore",
		Description: "Works on the running server and without a restart, for all servers when it is\n" +
			"run on one of them. What was interrupted is finished by the same command.",
	},
		leaf(&cli.Command{
			Name:      "status",
			ArgsUsage: "[FLAGS]",
			Usage:     "show whether Secrets are encrypted, and how many are stored with which key",
			Action:    action(showEncryption),
		},
			outputFlag(),
			kubeconfigFlag(),
		),
		change(joinapi.EncryptionEnable, "encrypt Secrets from now on, and those that exist", ""),
		change(joinapi.EncryptionDisable, "store Secrets in plain text again",
			"The key is kept: it reads what old snapshots and later uses need."),
		change(joinapi.EncryptionRotate, "replace the key",
			"Adds a key, writes every Secret with it and forgets the old key.", "rotate-keys"),
		change(joinapi.EncryptionReencrypt, "rewrite every Secret that is not stored with the active key", ""),
	)
}

func showEncryption(c *call) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	var s joinapi.EncryptionStatus
	if err := cl.do(c.ctx, http.MethodGet, joinapi.PathEncryption, nil, &s); err != nil {
		return err
	}
	if format == "json" {
		return encode(c.out, &s)
	}
	return writeEncryption(c.out, &s)
}

func writeEncryption(out io.Writer, s *joinapi.EncryptionStatus) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports errors
	state := "enabled"
	if s.Stage == joinapi.EncryptionDisabled {
		state = "disabled"
	}
	active := s.ActiveKey
	if active == "" {
		active = "none"
	}
	loaded := "read by the API server"
	if s.Hash != s.LoadedHash {
		loaded = "not yet read by the API server"
	}
	problem.Show(w, "Encryption:\t%s\n", state)
	problem.Show(w, "Stage:\t%s\n", s.Stage)
	problem.Show(w, "Active key:\t%s\n", active)
	problem.Show(w, "Keys:\t%s\n", strings.Join(s.Keys, ", "))
	problem.Show(w, "File:\t%s, %s\n", s.Path, loaded)
	problem.Show(w, "Hash:\t%s\n", s.Hash)
	if len(s.Servers) > 1 {
		problem.Show(w, "Servers:\t%s\n", describeServers(s.Servers))
	}
	if j := s.Job; j != nil {
		problem.Show(w, "Last change:\t%s: %s\n", j.Action, describeJob(j))
	}
	fmt.Fprint(w, "\nSTORED WITH\tSECRETS\n")
	for _, name := range slices.Sorted(maps.Keys(s.Stored)) {
		problem.Show(w, "%s\t%d\n", name, s.Stored[name])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if next := nextStep(s); next != "" {
		_, err := problem.Show(out, "\n%s\n", next)
		return err
	}
	return nil
}

// describeServers says whose API works with the keys of the cluster.
func describeServers(servers []joinapi.EncryptionServer) string {
	var there, missing []string
	for _, s := range servers {
		if s.Current {
			there = append(there, s.Name)
		} else {
			missing = append(missing, s.Name)
		}
	}
	if len(missing) == 0 {
		return "all have read the keys: " + strings.Join(there, ", ")
	}
	return "not yet read by " + strings.Join(missing, ", ")
}

// nextStep says what is left to do, if nothing does it already.
func nextStep(s *joinapi.EncryptionStatus) string {
	switch {
	case s.Job != nil && s.Job.Running:
		return ""
	case s.Stage == joinapi.EncryptionKeyAdded || s.Stage == joinapi.EncryptionKeyPromoted:
		return `A rotation was interrupted: "a4s secrets-encrypt rotate" finishes it.`
	case s.Pending > 0:
		return fmt.Sprintf(
			`%d Secrets are not stored with the active key: "a4s secrets-encrypt reencrypt" rewrites them.`, s.Pending)
	}
	return ""
}

func describeJob(j *joinapi.EncryptionJob) string {
	text := j.Step
	if j.Total > 0 {
		text = fmt.Sprintf("%s, %d of %d Secrets", text, j.Done, j.Total)
	}
	if j.Error != "" {
		text += ": " + firstLine(j.Error)
	}
	return text
}

func changeEncryption(c *call, action joinapi.EncryptionAction) error {
	cl, err := newClient(c)
	if err != nil {
		return err
	}
	if err := cl.do(c.ctx, http.MethodPost, joinapi.PathEncryptionStart,
		joinapi.EncryptionRequest{Action: action}, nil); err != nil {
		return err
	}
	last := ""
	for {
		var s joinapi.EncryptionStatus
		if err := cl.do(c.ctx, http.MethodGet, joinapi.PathEncryption, nil, &s); err != nil {
			return fmt.Errorf("the server goes on, or the same command does after its restart: %w", err)
		}
		if s.Job == nil { // it was restarted
			return errors.New("the server was restarted in the middle; the same command goes on")
		}
		if text := describeJob(s.Job); text != last {
			last = text
			if _, err := problem.Show(c.out, "%s\n", text); err != nil {
				return err
			}
		}
		if !s.Job.Running {
			return changed(c.out, &s)
		}
		select {
		case <-c.ctx.Done():
			return c.ctx.Err()
		case <-time.After(encryptionPoll):
		}
	}
}

// changed reports the end of a change.
func changed(out io.Writer, s *joinapi.EncryptionStatus) error {
	if s.Job.Error != "" {
		return fmt.Errorf("secrets-encrypt %s stopped, and the same command goes on: %s", s.Job.Action, s.Job.Error)
	}
	text := "Secrets are stored in plain text"
	if s.ActiveKey != "" {
		text = "Secrets are encrypted with " + s.ActiveKey
	}
	if _, err := problem.Show(out, "%s\n", text); err != nil {
		return err
	}
	if s.Flag && s.ActiveKey == "" {
		_, err := fmt.Fprintln(out,
			"The server has --secrets-encryption: without removing it, the next start encrypts again")
		return err
	}
	return nil
}
