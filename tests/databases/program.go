package databases

import (
	"os"
	"os/exec"

	"github.com/a4s-io/a4s/tests/process"
)

// program is a server that does not outlive the process of the test.
type program struct {
	*os.Process
	wait func() error
}

func run(cmd *exec.Cmd) (*program, error) {
	wait, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &program{cmd.Process, wait}, nil
}

// end sends a signal and waits until the program has ended.
func (p *program) end(signal os.Signal) error {
	if err := p.Signal(signal); err != nil {
		return err
	}
	return p.wait()
}
