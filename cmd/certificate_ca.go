package cmd

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// CARotation is what `a4s certificate rotate-ca` was asked for.
type CARotation struct {
	DataDir string
	// Path is a directory with the new CAs; empty means to make them.
	Path          string
	Force, Finish bool
}

// CARotated is what a rotation of CAs did.
type CARotated struct {
	// Replaced are the names of the CAs, Backup is where the former files are.
	Replaced []string
	Backup   string
	// Token is the complete join token from now on.
	Token string
}

// ErrServerRuns is the answer of Modes.RotateCA beside a server that runs, which
// is then asked itself.
var ErrServerRuns = errors.New("the server of this data directory runs")

const (
	beforeFinish = "restart it on all agents; when they are Ready, "
	finish       = "run\n  a4s certificate rotate-ca --finish\n"
)

func rotateCACommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "rotate-ca",
		ArgsUsage: "[FLAGS]",
		Usage:     "replace the certificate authorities of the cluster",
		Description: "Run it on one server while all of them run, then restart a4s on each server and on\n" +
			"the agents; pods keep running. Until the same is done again with --finish, old and new\n" +
			"CAs are trusted. A single server may be stopped, and has to be unless its datastore is\n" +
			"embedded etcd.",
		Action: action(func(c *call) error { return rotateCAs(c, m) }),
	},
		append(localFlags(),
			text("path", "", "",
				"`DIR` with new CAs, named as in server/tls; those that it lacks stay", "make new ones"),
			toggle("finish", "", "end the trust in the CAs that were replaced before"),
			toggle("force", "", "go on where the old CAs cannot vouch for the new ones: "+
				"nodes then join again, with the new token"),
		)...)
}

func rotateCAs(c *call, m Modes) error {
	r := &CARotation{Path: c.String("path"), Force: c.Bool("force"), Finish: c.Bool("finish")}
	if r.Finish && (r.Path != "" || r.Force) {
		return &problem.Input{Source: "--finish", Err: errors.New("it takes neither --path nor --force"),
			Want: "the flag alone"}
	}
	l, err := local(c)
	if err != nil {
		return err
	}
	r.DataDir = l.DataDir
	done, err := m.RotateCA(r)
	if errors.Is(err, ErrServerRuns) {
		return rotateCAsLive(c, r, l.Kubeconfig)
	}
	if err != nil {
		return err
	}
	if _, err := problem.Show(c.out, "replaced %s\nthe files before are in %s; keep them safe or remove them\n",
		strings.Join(done.Replaced, ", "), done.Backup); err != nil {
		return err
	}
	next := "start a4s on this machine, then " + beforeFinish + finish + "nodes join with this token from now on:"
	switch {
	case r.Finish:
		next = "only the new CAs are trusted now; start a4s on this machine and restart it on all agents\n" +
			"nodes join with this token:"
	case r.Force:
		next = "start a4s on this machine; where a node does not come back, start a4s there with this token:"
	}
	_, err = problem.Show(c.out, "%s\n%s\n", problem.Lines(next), done.Token)
	return err
}

// rotateCAsLive asks the server that runs on this machine.
func rotateCAsLive(c *call, r *CARotation, kubeconfig string) error {
	if r.Path != "" {
		var err error
		if r.Path, err = filepath.Abs(r.Path); err != nil {
			return err
		}
	}
	cl, err := clientOf(kubeconfig, "admin kubeconfig")
	if err != nil {
		return err
	}
	var done joinapi.CAsResponse
	if err := cl.do(c.ctx, http.MethodPost, joinapi.PathCAs,
		joinapi.CAsRequest{Path: r.Path, Force: r.Force, Finish: r.Finish}, &done); err != nil {
		return err
	}
	text := fmt.Sprintf("replaced %s, for the next start of each server", strings.Join(done.Replaced, ", "))
	if len(done.Servers) > 1 {
		text += " (" + strings.Join(done.Servers, ", ") + ")"
	}
	text += "\n"
	if len(done.Missing) > 0 {
		text += fmt.Sprintf("not yet fetched by %s: restart these servers only when their log says that they got "+
			"new certificate authorities\n", strings.Join(done.Missing, ", "))
	}
	text += "restart a4s on each server, the next one when the one before is Ready; the files before are kept in\n" +
		filepath.Join(r.DataDir, "server-tls-before-rotation-TIME") + "\n"
	switch {
	case r.Finish:
		text += "then restart it on all agents; only the new CAs are trusted from then on\nnodes join with this token:"
	case r.Force:
		text += "where the old CAs could not vouch for the new ones, restart all servers at once\n" +
			"where a node does not come back, start a4s there with this token:"
	default:
		text += "then " + beforeFinish + finish + "nodes join with this token when the servers were restarted:"
	}
	_, err = problem.Show(c.out, "%s\n%s\n", problem.Lines(text), done.Token)
	return err
}
