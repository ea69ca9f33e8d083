package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// diagnosis is what `a4s doctor -o json` prints.
type diagnosis struct {
	// Running describes the a4s of this machine; nil if none answers.
	Running *health.Report `json:"running"`
	// Problems are those that it knows of, and those that were found without it.
	Problems []health.Problem `json:"problems"`
}

// doctor is where to look; tests replace it.
type doctor struct {
	socket string
	proc   string // where processes are listed
	host   checkconfig.Host
	local  *config.Local
	modes  Modes
	now    time.Time
}

func doctorCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "doctor",
		ArgsUsage: "[FLAGS]",
		Usage:     "look for problems of this machine and of the a4s on it, and say what to do",
		Description: "Changes nothing. Asks a running server or agent, and checks machine, files and\n" +
			"time. The exit code is 1 if there is an error; warnings do not count.",
		Action: action(func(c *call) error {
			l, err := local(c)
			if err != nil {
				return err
			}
			format, err := outputFormat(c)
			if err != nil {
				return err
			}
			found, err := doctorOf(l, m).examine(c.ctx)
			if err != nil {
				return err
			}
			return found.report(c.out, format)
		}),
	},
		append(localFlags(),
			outputFlag())...)
}

// doctorOf looks at this machine.
func doctorOf(l *config.Local, m Modes) doctor {
	return doctor{socket: health.Socket(instance.RunDir), proc: "/proc", host: checkconfig.ThisHost(l.DataDir),
		local: l, modes: m, now: time.Now()}
}

func (d doctor) examine(ctx context.Context) (*diagnosis, error) {
	out := &diagnosis{Problems: []health.Problem{}}
	var err error
	if out.Running, err = askHealth(ctx, d.socket); err != nil {
		return nil, err
	}
	if out.Running != nil {
		out.Problems = append(out.Problems, out.Running.Problems...)
	}
	out.Problems = append(out.Problems, d.machine(out.Running != nil)...)
	out.Problems = append(out.Problems, d.arguments(out.Running != nil)...)
	out.Problems = append(out.Problems, d.files()...)
	out.Problems = append(out.Problems, clockProblems()...)
	if out.Running == nil {
		out.Problems = append(out.Problems, d.stopped()...)
	}
	return out, nil
}

// askHealth asks the a4s of this machine; nil means that there is none.
func askHealth(ctx context.Context, socket string) (*health.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	report, err := health.Ask(ctx, socket, health.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, &problem.Precondition{What: "socket " + socket, Err: fs.ErrPermission,
			Fix: "run the command as root"}
	case err != nil:
		return nil, fmt.Errorf("asking the a4s of this machine: %w", err)
	}
	return report, nil
}

// machine is what check-config finds. Of a running a4s, its own ports are no
// problem and its disk is its own business.
func (d doctor) machine(running bool) []health.Problem {
	var out []health.Problem
	for _, r := range checkconfig.Run(d.host) {
		if r.Level == checkconfig.Pass || running && (strings.HasPrefix(r.Name, "port ") ||
			strings.HasPrefix(r.Name, "disk of ") || strings.HasPrefix(r.Name, "cgroup controllers")) {
			continue
		}
		severity := health.Warning
		if r.Level == checkconfig.Fail {
			severity = health.Error
		}
		out = append(out, health.Problem{
			Code: "check-config", Severity: severity, Title: "The machine is not as it should be",
			Subject: r.Name, Detail: r.Found,
			Cause: "the kernel, an installed package or a setting of the machine", Fix: r.Fix,
		})
	}
	return out
}

// arguments are those for kube-apiserver that a server would not start with. One that runs
// goes on with what it read.
func (d doctor) arguments(running bool) []health.Problem {
	var out []health.Problem
	for _, r := range arguments(d.modes, d.local) {
		if r.Level == checkconfig.Pass {
			continue
		}
		p := health.Problem{
			Code: "arguments-refused", Severity: health.Error, Title: "A server does not start with its arguments",
			Subject: r.Name, Detail: r.Found,
			Cause: "an argument, or a file that it names, was changed or was never right", Fix: r.Fix,
		}
		if running {
			p.Severity, p.Title = health.Warning, "A server would not start again with its arguments"
		}
		out = append(out, p)
	}
	return out
}

// files looks for secrets that others can read.
func (d doctor) files() []health.Problem {
	var out []health.Problem
	server := filepath.Join(d.local.DataDir, "server")
	secret := []string{filepath.Join(server, "token"), filepath.Join(server, "agent-token"),
		filepath.Join(server, "cred", "encryption.yaml")}
	for _, pattern := range []string{filepath.Join(server, "tls", "*.key"), filepath.Join(server, "tls", "*", "*.key"),
		filepath.Join(d.local.DataDir, "agent", "tls", "*.key")} {
		found, err := filepath.Glob(pattern)
		if err == nil { // the patterns are right
			secret = append(secret, found...)
		}
	}
	for _, file := range append(secret, server) {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		out = append(out, health.Problem{
			Code: "secret-readable", Severity: health.Error,
			Title: "Others than root can get at a secret", Subject: file,
			Detail: fmt.Sprintf("its mode is %04o", info.Mode().Perm()),
			Cause:  "the mode was changed, as by a copy or a restore", Fix: "chmod go= " + file,
		})
	}
	if info, err := os.Stat(d.local.Kubeconfig); err == nil && info.Mode().Perm()&0o004 != 0 {
		out = append(out, health.Problem{
			Code: "kubeconfig-readable", Severity: health.Warning,
			Title: "Every user of this machine is an administrator of the cluster", Subject: d.local.Kubeconfig,
			Detail: fmt.Sprintf("its mode is %04o", info.Mode().Perm()),
			Cause:  "--write-kubeconfig-mode or chmod", Fix: "chmod o= " + d.local.Kubeconfig +
				", and use --write-kubeconfig-group",
		})
	}
	return out
}

// clockProblems asks the kernel whether somebody keeps the time.
func clockProblems() []health.Problem {
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	if err != nil || state != unix.TIME_ERROR {
		return nil
	}
	return []health.Problem{{
		Code: "clock-unsynchronized", Severity: health.Warning, Title: "The clock is not synchronized",
		Cause: "no time service runs, or it has found no server yet",
		Fix:   "run chrony or systemd-timesyncd; certificates and tokens are of no use on a machine with a wrong time",
	}}
}

// stopped is what to look at while no a4s runs.
func (d doctor) stopped() []health.Problem {
	registry := health.NewRegistry()
	server, node := pki.FilesIn(filepath.Join(d.local.DataDir, "server", "tls")),
		pki.NodeFilesIn(filepath.Join(d.local.DataDir, "agent", "tls"))
	if _, err := os.Stat(server.ServerCA.Cert); err == nil {
		health.Certificates(server.Uses)(context.Background(), registry)
	}
	if _, err := os.Stat(node.Client.Cert); err == nil {
		health.Certificates(node.Uses)(context.Background(), registry)
	}
	health.KernelLimits(d.proc)(context.Background(), registry)
	out := registry.Problems()
	if n := d.leftovers(); n > 0 {
		out = append(out, health.Problem{
			Code: "pods-without-a4s", Severity: health.Warning, Title: "Pods run although a4s does not",
			Detail: fmt.Sprintf("%d processes of its runtimes", n),
			Cause:  "a4s was stopped, which leaves pods alone, or has ended",
			Fix:    "start a4s again, which takes them over, or end them with a4s killall",
		})
	}
	return out
}

// leftovers counts the processes of pods: shims and virtual machines.
func (d doctor) leftovers() int {
	processes, err := filepath.Glob(filepath.Join(d.proc, "[0-9]*"))
	if err != nil {
		return 0
	}
	n := 0
	for _, process := range processes {
		if instance.Elsewhere(process, instance.RunDir) {
			continue
		}
		args, err := instance.Arguments(process)
		if err != nil || len(args) == 0 {
			continue // it has ended
		}
		if strings.Contains(filepath.Base(args[0]), "containerd-shim") &&
			strings.Contains(strings.Join(args, " "), instance.RunDir+"/") {
			n++
		}
	}
	return n
}

// report prints the diagnosis, and returns an error if it has errors.
func (f *diagnosis) report(out io.Writer, format string) error {
	count := map[health.Severity]int{}
	for _, p := range f.Problems {
		count[p.Severity]++
	}
	var err error
	if format == "json" {
		err = encode(out, f)
	} else {
		err = f.print(out, count)
	}
	if err == nil && count[health.Error] > 0 {
		err = fmt.Errorf("found %s", problem.Number(count[health.Error], "error"))
	}
	return err
}

func (f *diagnosis) print(out io.Writer, count map[health.Severity]int) error {
	var b strings.Builder
	if f.Running == nil {
		b.WriteString("No a4s runs on this machine.\n")
	} else {
		problem.Show(&b, "a4s %s %s runs as node %s.\n", f.Running.Mode, f.Running.Version, f.Running.Node)
	}
	for _, p := range f.Problems {
		problem.Show(&b, "\n%-8s %s\n", strings.ToUpper(string(p.Severity)), p.Line())
		problem.Show(&b, "  cause: %s\n", p.Cause)
		if p.Fix != "" {
			problem.Show(&b, "  fix:   %s\n", p.Fix)
		}
	}
	problem.Show(&b, "\n%s, %s\n", problem.Number(count[health.Error], "error"),
		problem.Number(count[health.Warning], "warning"))
	_, err := io.WriteString(out, b.String())
	return err
}
