package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/problem"
)

// errNotConfirmed is a deletion that whoever sits at the terminal did not mean.
var errNotConfirmed = errors.New("it was not deleted")

// confirm asks at a terminal for the name of a tenant in which pods run. Without a terminal
// nobody can answer, and scripts go on as they are.
func confirm(c *call, admin *tenantadmin.Admin, name string) error {
	if c.Bool("yes") || !isTerminal(c.in) {
		return nil
	}
	pods, err := admin.Running(c.ctx, name)
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case err != nil:
		_, err = problem.Show(c.errOut, "What runs in tenant %s cannot be seen: %v\n", name, err)
	case pods == 0:
		return nil
	default:
		_, err = problem.Show(c.errOut, "%s in tenant %s: they and everything else in its space are deleted.\n",
			podsRun(pods), name)
	}
	if err != nil {
		return err
	}
	if _, err := problem.Show(c.errOut, "Type the name of the tenant to delete it: "); err != nil {
		return err
	}
	typed, err := readLine(c)
	if err != nil {
		return err
	}
	if typed != name {
		return &problem.Input{Source: "tenant " + name, Err: errNotConfirmed, Want: fmt.Sprintf("its name, %s, at "+
			"the question, or --yes", name)}
	}
	return nil
}

func podsRun(n int) string {
	if n == 1 {
		return "1 pod runs"
	}
	return fmt.Sprintf("%d pods run", n)
}

// readLine reads what is typed until the end of the line, or of the command.
func readLine(c *call) (string, error) {
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(c.in).ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case got := <-read:
		if got.err != nil && !errors.Is(got.err, io.EOF) {
			return "", fmt.Errorf("reading the answer: %w", got.err)
		}
		return strings.TrimSpace(got.text), nil
	case <-c.ctx.Done():
		return "", c.ctx.Err()
	}
}

// isTerminal reports whether somebody can type what is read.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
