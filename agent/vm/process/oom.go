package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// SetOOMScore says how soon the kernel ends the process and its children when
// memory is short, from -1000 to 1000. A score that only somebody with more rights
// could set is left as it is: it is a higher one.
func (p *Process) SetOOMScore(score int) error {
	if err := setOOMScore(p.pid, score); err != nil {
		return fmt.Errorf("setting the OOM score of process %d: %w", p.pid, err)
	}
	return nil
}

func setOOMScore(pid, score int) error {
	err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(score)), 0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return nil // it has ended, which is seen elsewhere
	case err != nil && !errors.Is(err, fs.ErrPermission):
		return err
	}
	// What is started from now on has it already.
	started, err := children(pid)
	if err != nil {
		return err
	}
	for _, child := range started {
		if err := setOOMScore(child, score); err != nil {
			return err
		}
	}
	return nil
}
