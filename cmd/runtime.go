package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/workload"
)

func runtimeCommand() *cli.Command {
	socket := func() cli.Flag {
		return text("socket", "", filepath.Join(instance.RunDir, noderuntime.Socket),
			"ask the node at the socket `PATH`")
	}
	return group(&cli.Command{
		Name:  "runtime",
		Usage: "manage the container runtimes of this machine's node while it runs",
	},
		leaf(&cli.Command{
			Name:      "list",
			ArgsUsage: "[FLAGS]",
			Usage:     "list the runtimes and whether they are ready",
			Action:    action(listRuntimes),
		},
			outputFlag(),
			socket(),
		),
		leaf(&cli.Command{
			Name:      "add",
			ArgsUsage: "NAME TYPE ENDPOINT [FLAGS]",
			Usage:     "register a runtime, also for later starts of the node",
			Description: "TYPE is the workload type of the pods that it runs, container or vm, and ENDPOINT\n" +
				"the path of its CRI socket. Runtimes that a4s carries, and the primary one, are given\n" +
				"by --runtime when the node starts.",
			Before: takes(3, 3, "the name, the type and the endpoint of a runtime"),
			Action: action(addRuntime),
		},
			outputFlag(),
			socket(),
		),
		leaf(&cli.Command{
			Name:        "remove",
			ArgsUsage:   "NAME [FLAGS]",
			Usage:       "take a runtime out",
			Description: "A runtime that --runtime names is back after a restart of the node.",
			Before:      takes(1, 1, `the name of a runtime, as "a4s runtime list" prints it`),
			Action:      action(removeRuntime),
		},
			toggle("force", "", "even if it still has pods: the node forgets them, the runtime does not"),
			socket(),
		),
	)
}

// asJSON reads --output.
func asJSON(c *call) (bool, error) {
	format, err := outputFormat(c)
	if err != nil {
		return false, err
	}
	return format == "json", nil
}

func listRuntimes(c *call) error {
	inJSON, err := asJSON(c)
	if err != nil {
		return err
	}
	states, err := noderuntime.Client{Socket: c.String("socket")}.List(c.ctx)
	if err != nil {
		return runtimeError(c, err)
	}
	return writeRuntimeStates(c.out, states, inJSON, time.Now())
}

func addRuntime(c *call) error {
	inJSON, err := asJSON(c)
	if err != nil {
		return err
	}
	r := noderuntime.Runtime{Name: c.arg(0), Type: workload.Type(c.arg(1)), Endpoint: c.arg(2)}
	if err := r.Complete(); err != nil {
		return &problem.Input{Source: "runtime", Err: err,
			Want: "a name, container or vm, and the path of a CRI socket"}
	}
	state, err := noderuntime.Client{Socket: c.String("socket")}.Add(c.ctx, r)
	if err != nil {
		return runtimeError(c, err)
	}
	if inJSON {
		return encode(c.out, state)
	}
	_, err = problem.Show(c.out, "added %s\n", state.Name)
	return err
}

func removeRuntime(c *call) error {
	name := c.arg(0)
	if err := (noderuntime.Client{Socket: c.String("socket")}).Remove(c.ctx, name, c.Bool("force")); err != nil {
		return runtimeError(c, err)
	}
	_, err := problem.Show(c.out, "removed %s\n", name)
	return err
}

// runtimeError says what to do about a node that cannot be asked.
func runtimeError(c *call, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrPermission) {
		return &problem.Precondition{What: "node of this machine, at " + c.String("socket"), Err: err,
			Fix: "run as root, where an a4s server or agent runs"}
	}
	if errors.Is(err, noderuntime.ErrRefused) {
		return &problem.Input{Source: "runtime", Value: c.arg(0), Err: err}
	}
	return err
}

func writeRuntimeStates(out io.Writer, states []noderuntime.State, inJSON bool, now time.Time) error {
	if inJSON {
		return encode(out, states)
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports errors
	fmt.Fprintln(w, "NAME\tTYPE\tPRIMARY\tREADY\tSINCE\tREASON\tVERSION\tENDPOINT")
	for _, s := range states {
		primary := ""
		if s.Primary {
			primary = "yes"
		}
		problem.Show(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Type, primary, s.Ready,
			duration.HumanDuration(now.Sub(s.Since)), s.Reason, s.Version, s.Endpoint)
	}
	return w.Flush()
}
